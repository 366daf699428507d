# Two commands matter:
#
#   sudo make demo    a client, three hosts and their backends, on this machine
#   sudo make test    all the tests
#
# Both need Linux with nftables, and root: they make network namespaces.

# sudo resets PATH, and Go's own installer puts go where sudo does not look.
export PATH := $(PATH):/usr/local/go/bin:/usr/sbin:/sbin

GO       ?= go
PREFIX   ?= /usr/local
FUZZTIME ?= 10s
BENCH    ?= .

# The Go toolchain records the commit, and the tag if there is one, in the binary.
# It fails where git will not speak: in a repository of somebody else's.
VCS     := $(shell git rev-parse HEAD >/dev/null 2>&1 && echo true || echo false)
# For packagers, who build without a repository: make build VERSION=v1.2.3
LDFLAGS := -s -w $(if $(VERSION),-X main.version=$(VERSION))

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0

.PHONY: help build demo test lint bench fuzz vuln install uninstall clean go root packages

help:
	@echo 'make build     bin/pointsman'
	@echo 'make demo      see it work, with real connections (root)'
	@echo 'make test      all tests (root; installs what they need with apt-get)'
	@echo 'make lint      gofmt, go vet, staticcheck'
	@echo 'make bench     benchmarks (root); BENCH=regexp'
	@echo 'make fuzz      every fuzz target for FUZZTIME=$(FUZZTIME) (root)'
	@echo 'make vuln      govulncheck, against the database in GOVULNDB'
	@echo 'make install   the binary, man pages, completions and systemd units, under PREFIX=$(PREFIX) and DESTDIR (root)'
	@echo 'make uninstall removes them; what is under /etc and /var stays'

build: go
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=$(VCS) -ldflags '$(LDFLAGS)' -o bin/pointsman ./cmd/pointsman

demo: root packages build
	@$(GO) build -buildvcs=false -o bin/pointsman-demo ./cmd/pointsman-demo
	@bin/pointsman-demo

# -count=1: the cache of results knows nothing of the kernel, nor of the agent
# that the tests build. -parallel 4 and -p 3 whatever the machine has: the tests
# of fleets mostly wait.
test: root packages go
	$(GO) test -race -count=1 -timeout 15m -parallel 4 -p 3 ./...

lint: go
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not formatted by gofmt: $$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

bench: root packages go
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./...

# A minute for each input that is made smaller, as go test has it, would leave no
# time to try others.
fuzz: root packages go
	@grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed 's|/[^/]*:func | |' | sort | \
	while read -r package target; do \
		echo "$$package $$target"; \
		$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s "$$package" || exit 1; \
	done

vuln: go
	@test -n "$$GOVULNDB" || { echo 'make vuln: set GOVULNDB to the address of a Go vulnerability database (file:///... or https://...)'; exit 1; }
	$(GO) run $(GOVULNCHECK) -db "$$GOVULNDB" ./...

# What is under /etc is the operator's: it's installed where it isn't there yet,
# and stays when the rest goes.
units   := $(wildcard systemd/*.service systemd/*.timer)
completions := bash:bash-completion/completions/pointsman zsh:zsh/site-functions/_pointsman fish:fish/vendor_completions.d/pointsman.fish
install: build
	install -D -m 755 bin/pointsman '$(DESTDIR)$(PREFIX)/bin/pointsman'
	@for unit in $(units); do \
		install -d '$(DESTDIR)$(PREFIX)/lib/systemd/system'; \
		sed 's|/usr/local/|$(PREFIX)/|' "$$unit" >'$(DESTDIR)$(PREFIX)/lib/systemd/system/'$${unit##*/}; \
	done
	bin/pointsman man '$(DESTDIR)$(PREFIX)/share/man/man1'
	@for script in $(completions); do \
		install -D -m 644 "cmd/pointsman/shells/pointsman.$${script%%:*}" '$(DESTDIR)$(PREFIX)/share/'"$${script#*:}"; \
	done
	install -D -m 644 systemd/sysusers.conf '$(DESTDIR)$(PREFIX)/lib/sysusers.d/pointsman.conf'
	install -D -m 644 systemd/modules-load.conf '$(DESTDIR)$(PREFIX)/lib/modules-load.d/pointsman.conf'
	install -D -m 644 -t '$(DESTDIR)$(PREFIX)/share/doc/pointsman' README.md CHANGELOG.md LICENSE
	install -D -m 644 -t '$(DESTDIR)$(PREFIX)/share/doc/pointsman/examples' systemd/examples/*.conf
	sed -i 's|/usr/local/|$(PREFIX)/|' '$(DESTDIR)$(PREFIX)/share/doc/pointsman/examples/'*.conf
	install -d -m 755 '$(DESTDIR)/etc/pointsman/manifests'
	@for file in config.yaml:pointsman/config.yaml pointsman.default:default/pointsman pointsman-sync.default:default/pointsman-sync; do \
		to='$(DESTDIR)/etc/'$${file#*:}; \
		test -e "$$to" || install -v -D -m 644 "systemd/$${file%%:*}" "$$to"; \
	done

uninstall:
	rm -f '$(DESTDIR)$(PREFIX)/bin/pointsman' '$(DESTDIR)$(PREFIX)/lib/sysusers.d/pointsman.conf' '$(DESTDIR)$(PREFIX)/lib/modules-load.d/pointsman.conf'
	rm -f $(patsubst systemd/%,'$(DESTDIR)$(PREFIX)/lib/systemd/system/%',$(units))
	rm -f '$(DESTDIR)$(PREFIX)/share/man/man1/pointsman.1' '$(DESTDIR)$(PREFIX)/share/man/man1/pointsman-'*.1
	rm -f $(foreach script,$(completions),'$(DESTDIR)$(PREFIX)/share/$(lastword $(subst :, ,$(script)))')
	rm -rf '$(DESTDIR)$(PREFIX)/share/doc/pointsman'

clean:
	rm -rf bin

go:
	@command -v $(GO) >/dev/null || { echo 'make: there is no go in PATH ($(PATH)); say where it is: make GO=/path/to/go ...'; exit 1; }

root:
	@test "$$(id -u)" = 0 || { echo 'make: this makes network namespaces and loads nftables rules in them, which needs root: sudo make $(MAKECMDGOALS)'; exit 1; }

# What the tests and the demo run; -race needs a C compiler.
packages:
	@missing=; \
	for need in nft:nftables conntrack:conntrack ip:iproute2 git:git ssh-keygen:openssh-client sshd:openssh-server gpg:gnupg gcc:gcc systemd-analyze:systemd keepalived:keepalived zsh:zsh fish:fish mandoc:mandoc; do \
		command -v "$${need%%:*}" >/dev/null || missing="$$missing $${need##*:}"; \
	done; \
	test -n "$$missing" || exit 0; \
	case "$$missing" in *gcc*) missing="$$missing libc6-dev";; esac; \
	command -v apt-get >/dev/null || { echo "make: install these first:$$missing"; exit 1; }; \
	export DEBIAN_FRONTEND=noninteractive; \
	apt-get update -q && apt-get install -q -y --no-install-recommends $$missing
