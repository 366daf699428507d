//go:build deps

package deps

import (
	_ "github.com/fsnotify/fsnotify"
	_ "github.com/google/nftables"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/urfave/cli/v2"
	_ "github.com/vishvananda/netlink"
	_ "github.com/vishvananda/netlink/nl"
	_ "go.yaml.in/yaml/v3"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sys/unix"
	_ "k8s.io/api/core/v1"
	_ "k8s.io/api/discovery/v1"
	_ "k8s.io/apimachinery/pkg/util/validation"
	_ "k8s.io/apimachinery/pkg/util/validation/field"
	_ "pgregory.net/rapid"
	_ "sigs.k8s.io/json"
	_ "sigs.k8s.io/knftables"
	_ "sigs.k8s.io/yaml"
)
