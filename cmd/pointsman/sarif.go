package main

import (
	"net/url"
	"path/filepath"

	"pointsman/state/manifest"
)

// The parts of SARIF 2.1.0 (OASIS) that code scanners read. The libraries for
// it bring JSON schemas and their loader along, which has no place in an agent.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool     `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string      `json:"id"`
		ShortDescription sarifText   `json:"shortDescription"`
		Default          sarifConfig `json:"defaultConfiguration"`
	}
	sarifConfig struct {
		Level string `json:"level"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine int `json:"startLine"`
	}
)

// sarifOf gives findings as a SARIF log of one run. The rules are those that
// were found against.
func sarifOf(problems []manifest.Problem) sarifLog {
	run := sarifRun{Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "pointsman", Version: versionText(), Rules: []sarifRule{}}
	index := map[manifest.Rule]int{}
	infos := map[manifest.Rule]manifest.RuleInfo{}
	for _, info := range manifest.Rules() {
		infos[info.ID] = info
	}
	for _, p := range problems {
		at, known := index[p.Rule]
		if !known {
			at = len(index)
			index[p.Rule] = at
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{ID: string(p.Rule),
				ShortDescription: sarifText{infos[p.Rule].Says}, Default: sarifConfig{infos[p.Rule].Severity.String()}})
		}
		where := sarifPhysical{sarifArtifact{uriOf(p.Source.File)}, sarifRegion{max(p.Source.Line, 1)}}
		run.Results = append(run.Results, sarifResult{RuleID: string(p.Rule), RuleIndex: at, Level: p.Severity.String(),
			Message: sarifText{fieldAndMessage(p)}, Locations: []sarifLocation{{where}}})
	}
	return sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}}
}

// uriOf gives a path as a relative or absolute URI reference (RFC 3986).
func uriOf(path string) string { return (&url.URL{Path: filepath.ToSlash(path)}).String() }
