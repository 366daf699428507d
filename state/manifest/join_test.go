package manifest

import "testing"

func TestC10PortNameMismatch(t *testing.T)      { golden(t, "join/c10-port-names") }
func TestC11LegacyEndpoints(t *testing.T)       { golden(t, "join/c11-endpoints") }
func TestC13SeveralSlices(t *testing.T)         { golden(t, "join/c13-several-slices") }
func TestC14SameAddressTwoPorts(t *testing.T)   { golden(t, "join/c14-two-ports") }
func TestC16SliceWithoutPorts(t *testing.T)     { golden(t, "join/c16-no-ports") }
func TestC17SelectorWithoutPods(t *testing.T)   { golden(t, "join/c17-selector") }
func TestC26MixedRanges(t *testing.T)           { golden(t, "join/c26-mixed-ranges") }
func TestC28SourceRanges(t *testing.T)          { golden(t, "join/c28-source-ranges") }
func TestC40LongNames(t *testing.T)             { golden(t, "join/c40-long-names") }
func TestC94SameNameTwoNamespaces(t *testing.T) { golden(t, "join/c94-namespaces") }
func TestC95Families(t *testing.T)              { golden(t, "join/c95-families") }
func TestFrontends(t *testing.T)                { golden(t, "join/frontends") }
func TestTrafficDistribution(t *testing.T)      { golden(t, "join/traffic-distribution") }
func TestMissingValues(t *testing.T)            { golden(t, "join/missing-values") }
func TestCompany(t *testing.T)                  { golden(t, "join/company") }
func TestRepeats(t *testing.T)                  { golden(t, "join/repeats") }
func TestListItemProblems(t *testing.T)         { golden(t, "join/list") }
