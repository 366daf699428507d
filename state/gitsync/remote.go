package gitsync

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// remote is where a repository is.
type remote struct {
	address   string // what git is given
	transport string // the one protocol that git may speak
	host      string // of a URL, with the port
	user      string // of a URL
}

var transports = []string{"https", "http", "ssh", "file"}

// parseRemote reads a repository's address. git:// isn't taken, for anybody on
// the way may answer it; nor is ext::, which runs a command.
func parseRemote(repo string) (remote, error) {
	if filepath.IsAbs(repo) {
		return remote{address: (&url.URL{Scheme: "file", Path: repo}).String(), transport: "file"}, nil
	}
	if !strings.Contains(repo, "://") {
		return parseScp(repo)
	}
	u, err := url.Parse(repo)
	switch {
	case err != nil:
		return remote{}, errors.New("the repository's address is no URL") // whose text may hold a password
	case !slices.Contains(transports, u.Scheme):
		return remote{}, fmt.Errorf("repository %s: %s:// is none of https, http, ssh and file", u.Redacted(), u.Scheme)
	case u.Host == "" && u.Scheme != "file":
		return remote{}, fmt.Errorf("repository %s names no host", u.Redacted())
	}
	if _, secret := u.User.Password(); secret {
		return remote{}, fmt.Errorf("repository %s: a password in a URL is seen by everybody: give a token file", u.Redacted())
	}
	if strings.HasPrefix(u.Host, "-") || strings.HasPrefix(u.User.Username(), "-") {
		return remote{}, fmt.Errorf("repository %s: no host or user begins with -", u.Redacted())
	}
	return remote{address: repo, transport: u.Scheme, host: u.Host, user: u.User.Username()}, nil
}

// parseScp reads [user@]host:path, which git takes for SSH.
func parseScp(repo string) (remote, error) {
	where, file, found := strings.Cut(repo, ":")
	user, host, named := strings.Cut(where, "@")
	if !named {
		user, host = "", where
	}
	bad := !found || file == "" || strings.HasPrefix(file, ":") || host == "" || strings.ContainsAny(where, "/ ") ||
		strings.HasPrefix(where, "-") || strings.HasPrefix(host, "-")
	if bad {
		return remote{}, fmt.Errorf("repository %q: neither a URL, nor host:path, nor an absolute path", repo)
	}
	return remote{address: repo, transport: "ssh", host: host, user: user}, nil
}

func (a Access) validate(repo string) error {
	r, err := parseRemote(repo)
	if err != nil {
		return err
	}
	if (a.SSHKey != "" || a.KnownHosts != "") && r.transport != "ssh" {
		return fmt.Errorf("an SSH key or known hosts are of no use to a repository by %s", r.transport)
	}
	if a.TokenFile != "" && r.transport != "https" && r.transport != "http" {
		return fmt.Errorf("a token is of no use to a repository by %s", r.transport)
	}
	for _, file := range []string{a.SSHKey, a.KnownHosts} {
		// ssh has its own quotes and variables in the values of its options.
		if file != "" && (!filepath.IsAbs(file) || strings.ContainsAny(file, " \t\n\"'\\%$")) {
			return fmt.Errorf("file %q: an absolute path without blanks, quotes and %% is needed for ssh", file)
		}
	}
	return nil
}

// environment is all that git and its helpers get to know: nothing of it is
// taken from outside, but for the way to programs and proxies. Secrets go here;
// only root and the same user can read a process's environment.
func (r remote) environment(a Access, getenv func(string) string) ([]string, error) {
	env := []string{
		"LC_ALL=C", "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=/bin/false", "SSH_ASKPASS=/bin/false",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_OPTIONAL_LOCKS=0", "GIT_SSH_VARIANT=ssh",
		"GIT_SSH_COMMAND=" + sshCommand(a),
	}
	for _, name := range []string{"PATH", "TMPDIR", "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"} {
		if value := getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	if a.TokenFile == "" {
		return env, nil
	}
	token, err := readToken(a.TokenFile)
	if err != nil {
		return nil, err
	}
	return append(env, r.authorization(token)...), nil
}

// authorization has git send the token to this server and to no other: it
// follows no redirect either. Without a user in the URL the name is the one that
// forges take for a token's.
func (r remote) authorization(token string) []string {
	user := r.user
	if user == "" {
		user = "x-access-token"
	}
	secret := base64.StdEncoding.EncodeToString([]byte(user + ":" + token))
	return []string{
		"GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=http." + r.transport + "://" + r.host + "/.extraHeader",
		"GIT_CONFIG_VALUE_0=Authorization: Basic " + secret,
	}
}

const maxToken = 16 << 10

func readToken(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	token := strings.TrimRight(string(data), "\r\n")
	if token == "" || len(token) > maxToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("token: %s is not one line of printable characters without blanks", file)
	}
	return token, nil
}

// sshCommand is what git runs for SSH: without anybody's configuration, agent,
// forwarding, or a question. The file names hold nothing that a shell or ssh
// would take for more than a letter (Access.validate).
func sshCommand(a Access) string {
	options := []string{
		"BatchMode=yes", "StrictHostKeyChecking=yes", "UpdateHostKeys=no", "IdentityAgent=none", "ForwardAgent=no",
		"ForwardX11=no", "ClearAllForwardings=yes", "ControlMaster=no", "ControlPath=none", "PermitLocalCommand=no",
		"ConnectTimeout=20", "ServerAliveInterval=15", "ServerAliveCountMax=4",
	}
	if a.SSHKey != "" {
		options = append(options, "IdentitiesOnly=yes", "IdentityFile="+a.SSHKey)
	}
	if a.KnownHosts != "" {
		options = append(options, "UserKnownHostsFile="+a.KnownHosts, "GlobalKnownHostsFile=/dev/null")
	}
	return "ssh -F /dev/null -o " + strings.Join(options, " -o ")
}
