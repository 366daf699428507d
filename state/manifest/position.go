package manifest

import (
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
)

// parseTree gives a document's nodes, which know their lines. It costs as
// much as decoding the document.
func parseTree(text []byte) (*yamlv3.Node, error) {
	var root yamlv3.Node
	if err := yamlv3.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	if len(root.Content) == 0 {
		return nil, nil
	}
	return root.Content[0], nil
}

// lineOf gives the line in its document of the field that a path names, such
// as spec.ports[0].nodePort, or of the nearest parent that is there; 0 where
// nothing is.
func lineOf(root *yamlv3.Node, path string) int { return lineOfSteps(root, steps(path)) }

func lineOfSteps(root *yamlv3.Node, steps []string) int {
	line := 0
	for i, step := range steps {
		next, at := child(root, step)
		if next == nil {
			return max(line, lineInBlock(root, steps[i:]))
		}
		root, line = next, at
	}
	return line
}

// lineInBlock gives the line of a field of the YAML that a block scalar holds,
// as annotations do; 0 where there is none. The lines of other scalars can't
// be told from their values.
func lineInBlock(n *yamlv3.Node, steps []string) int {
	if n == nil || n.Kind != yamlv3.ScalarNode || n.Style&yamlv3.LiteralStyle == 0 {
		return 0
	}
	inner, err := parseTree([]byte(n.Value))
	if err != nil {
		return 0
	}
	if line := lineOfSteps(inner, steps); line > 0 {
		return n.Line + line
	}
	return 0
}

// child gives a node's child by key or index, and the line it starts at: that
// of the key, in a mapping.
func child(n *yamlv3.Node, step string) (*yamlv3.Node, int) {
	if n != nil && n.Kind == yamlv3.AliasNode {
		n = n.Alias
	}
	switch {
	case n == nil:
	case n.Kind == yamlv3.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i].Line
		}
	case n.Kind == yamlv3.MappingNode:
		return value(n, step)
	}
	return nil, 0
}

// value gives a mapping's value by key. The case of the key matters only
// where both spellings occur: the API server writes LoadBalancerSourceRanges.
func value(n *yamlv3.Node, key string) (*yamlv3.Node, int) {
	var found *yamlv3.Node
	line := 0
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch k := n.Content[i]; {
		case k.Value == key:
			return n.Content[i+1], k.Line
		case found == nil && strings.EqualFold(k.Value, key):
			found, line = n.Content[i+1], k.Line
		}
	}
	if other := writtenAs[key]; found == nil && other != "" {
		return value(n, other)
	}
	return found, line
}

// writtenAs names the field that a defaulted one was copied from.
var writtenAs = map[string]string{"clusterIPs": "clusterIP", "targetPort": "port"}

// steps takes a field path apart into keys and indexes. What stands in
// brackets is one step: metadata.annotations[pointsman/probe-from].
func steps(path string) []string {
	var all []string
	for path != "" {
		if path[0] == '[' {
			end := strings.IndexByte(path, ']')
			if end < 0 {
				return all
			}
			all = append(all, path[1:end])
			path = path[end+1:]
			continue
		}
		path = strings.TrimPrefix(path, ".")
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			end = len(path)
		}
		all = append(all, path[:end])
		path = path[end:]
	}
	return all
}

// visit calls f for a node and all below it, with their field paths. Aliases
// are not followed, and no manifest's field is deeper than maxPath levels.
func visit(n *yamlv3.Node, path string, f func(*yamlv3.Node, string)) {
	visitTo(maxPath, n, path, f)
}

const maxPath = 32

func visitTo(levels int, n *yamlv3.Node, path string, f func(*yamlv3.Node, string)) {
	if n == nil || levels == 0 {
		return
	}
	f(n, path)
	switch n.Kind {
	case yamlv3.SequenceNode:
		for i, c := range n.Content {
			visitTo(levels-1, c, path+"["+strconv.Itoa(i)+"]", f)
		}
	case yamlv3.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			visitTo(levels-1, n.Content[i+1], join(path, n.Content[i].Value), f)
		}
	}
}

// join gives the path of a field of the object at a path.
func join(path, key string) string {
	switch {
	case path == "":
		return key
	case strings.HasPrefix(key, "["):
		return path + key
	}
	return path + "." + key
}

// holderOf gives the path of the object that a field belongs to; what stands
// in a list or a map of scalars belongs to that object too.
func holderOf(path string) string {
	for strings.HasSuffix(path, "]") {
		path = path[:max(strings.LastIndexByte(path, '['), 0)]
	}
	return path[:max(strings.LastIndexByte(path, '.'), 0)]
}

// isWithin reports whether a path is that of a field or of something in it.
func isWithin(path, field string) bool {
	rest, ok := strings.CutPrefix(path, field)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
