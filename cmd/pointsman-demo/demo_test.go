package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pointsman/reconcile/lab"
)

const quickstart = "../../examples/quickstart/manifests"

func TestMain(m *testing.M) { lab.Isolated(m) }

// TestDemo runs the demo with the real agent: its steps check themselves.
func TestDemo(t *testing.T) {
	agent := filepath.Join(t.TempDir(), "pointsman")
	if out, err := exec.Command("go", "build", "-o", agent, "../pointsman").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var out bytes.Buffer
	if err := run(t.Context(), &out, agent, quickstart); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("colours, and no terminal")
	}
}

// failingAgent is an agent that ends at once.
func failingAgent(t *testing.T) string {
	t.Helper()
	agent := filepath.Join(t.TempDir(), "pointsman")
	if err := os.WriteFile(agent, []byte("#!/bin/sh\necho what is wrong: $4\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return agent
}

func TestAgentThatEndsShowsItsLog(t *testing.T) {
	var out bytes.Buffer
	t.Setenv("TMPDIR", t.TempDir())
	err := run(t.Context(), &out, failingAgent(t), quickstart)
	if err == nil || !strings.Contains(err.Error(), "ended by itself: exit status 1") {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(out.String(), "what is wrong: --node-name") {
		t.Errorf("no log in:\n%s", &out)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := run(ctx, &bytes.Buffer{}, failingAgent(t), quickstart)
	if err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("got %v", err)
	}
}

func TestTallyTellsFailuresAndUnfairShares(t *testing.T) {
	var fair lab.Tally
	for range 30 {
		for _, b := range backends {
			fair.Add(lab.Reply{Outcome: lab.OK, Backend: b})
		}
	}
	if err := check(&fair, backends...); err != nil || fair.String() != "b1 30, b2 30, b3 30" {
		t.Errorf("%s: %v", &fair, err)
	}
	if err := check(&fair, "b1", "b4"); err == nil || !strings.Contains(err.Error(), "b4 got too few") {
		t.Errorf("got %v", err)
	}
	fair.Add(lab.Reply{Outcome: lab.Timeout})
	if err := check(&fair, backends...); err == nil || !strings.Contains(err.Error(), "1 of 91 connections failed") {
		t.Errorf("got %v", err)
	}
}
