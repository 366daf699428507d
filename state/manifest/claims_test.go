package manifest

import "testing"

func TestC31SameExternalIPAndPort(t *testing.T) { golden(t, "join/c31-same-external-ip") }
func TestC32SharedVIP(t *testing.T)             { golden(t, "join/c32-shared-vip") }
func TestClaims(t *testing.T)                   { golden(t, "join/claims") }
func TestDuplicates(t *testing.T)               { golden(t, "join/duplicates") }
