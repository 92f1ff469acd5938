package redlock

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ParseNodes makes voters of addresses:
//
//	host  host:port  [::1]:6379                 a Redis master; port 6379 unless given
//	redis://user:password@host:port/db          the same, with credentials and a database
//	rediss://user:password@host:port/db?…       over TLS
//	unix:///path/to/socket?db=1                 on a socket of this machine
//	redis+sentinel://h1:26379,h2,h3/name?db=1   a Sentinel group by its master's name, one vote (see [Sentinel]); port 26379 unless given
//	rediss+sentinel://h1,h2,h3/name?…           the same over TLS
//	redis+cluster://host:port,host:port?votes=3 votes on distinct masters of a Redis Cluster (see [Cluster]); 3 unless given
//	rediss+cluster://host:port,host:port?…      the same over TLS
//
// valkey:// and valkeys:// are other names of redis:// and rediss://. What is
// special in a URL has to be percent-encoded in a password. TLS takes the
// parameters ca_file, cert_file with key_file (PEM files, read now),
// server_name, and skip_verify=true, which trusts every certificate. Of a Sentinel
// group these, the user and the password are the master's. The sentinels' own user
// and password are the parameters sentinel_username and sentinel_password. They are
// reached over TLS as the master is, unless sentinel_tls is true or false, or there
// are sentinel_ca_file, sentinel_server_name and so on, which then are all that counts.
//
// It does no network I/O. All addresses that are wrong are reported together,
// each as a *[ConfigError] that names its place in the list, counted from 0.
// No error shows a user name, a password or a parameter's value.
func ParseNodes(urls ...string) ([]Node, error) {
	if len(urls) == 0 {
		return nil, &ConfigError{"nodes", "none", "give the address of at least one Redis master"}
	}
	nodes := make([]Node, 0, len(urls))
	var errs []error
	for i, s := range urls {
		s = strings.TrimSpace(s)
		voters, err := parseAddress(s)
		if err != nil {
			errs = append(errs, &ConfigError{fmt.Sprintf("node %d", i), redactURL(s), err.Error()})
			continue
		}
		nodes = append(nodes, voters...)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return nodes, nil
}

// parseAddress makes the voters of one address. Its errors are rules, without the
// address.
func parseAddress(s string) ([]Node, error) {
	switch kind, secure := kindOf(s); kind {
	case kindCluster:
		return parseCluster(s, secure)
	case kindSentinel:
		node, err := parseSentinel(s, secure)
		return []Node{node}, err
	}
	opt, err := parseNode(s)
	if err != nil {
		return nil, err
	}
	return []Node{Master(opt)}, nil
}

// errNotURL replaces the errors of package url, which quote what they could not
// parse: it may be a password.
var errNotURL = errors.New("is not an address; write host:port or redis://user:password@host:port/db, " +
	"with characters like / ? # % @ percent-encoded in the password")

// splitScheme takes a bare address for redis://. "unix:/path", as a node's name
// shows it, is also understood.
func splitScheme(s string) (scheme, rest string) {
	if before, after, ok := strings.Cut(s, "://"); ok {
		return strings.ToLower(before), after
	}
	if after, ok := strings.CutPrefix(s, "unix:/"); ok {
		return "unix", "/" + after
	}
	if a, err := netip.ParseAddr(s); err == nil && a.Is6() {
		return "", "[" + s + "]"
	}
	return "", s
}

// parseNode reads one address. Its errors are rules, without the address.
func parseNode(s string) (*redis.Options, error) {
	scheme, rest := splitScheme(s)
	secure := false
	switch scheme {
	case "", "redis", "valkey":
	case "rediss", "valkeys":
		secure = true
	case "unix":
		return parseUnix(rest)
	default:
		return nil, errors.New("has a scheme that is not known; use redis://, rediss:// (TLS) or unix://")
	}
	u, err := url.Parse("redis://" + rest)
	if err != nil || u.Fragment != "" || u.Opaque != "" {
		return nil, errNotURL
	}
	opt := &redis.Options{Network: "tcp"}
	if opt.Addr, err = hostPort(u, "6379"); err != nil {
		return nil, err
	}
	if opt.DB, err = databaseNumber(strings.TrimPrefix(u.Path, "/")); err != nil {
		return nil, err
	}
	opt.Username, opt.Password = credentials(u)
	params, err := parameters(u)
	if err != nil {
		return nil, err
	}
	if !secure {
		if len(params) > 0 {
			return nil, errors.New("has parameters, and only rediss:// (TLS) takes some; the database is written as /1")
		}
		return opt, nil
	}
	opt.TLSConfig, err = parseTLS(u.Hostname(), params)
	return opt, err
}

func parseUnix(rest string) (*redis.Options, error) {
	u, err := url.Parse("unix://" + rest)
	if err != nil || u.Fragment != "" {
		return nil, errNotURL
	}
	if u.Host != "" || len(u.Path) < 2 {
		return nil, errors.New("a socket is written unix:///path/to/socket, with three slashes")
	}
	opt := &redis.Options{Network: "unix", Addr: u.Path}
	opt.Username, opt.Password = credentials(u)
	params, err := parameters(u)
	if err != nil {
		return nil, err
	}
	opt.DB, err = databaseNumber(params["db"])
	delete(params, "db")
	if len(params) > 0 {
		return nil, errors.New("has a parameter that is not known; a socket takes db=1 and no other")
	}
	return opt, err
}

func credentials(u *url.URL) (username, password string) {
	password, _ = u.User.Password()
	return u.User.Username(), password
}

// hostPort is the address to dial; usual is the port where none is given.
func hostPort(u *url.URL, usual string) (string, error) {
	host, port := u.Hostname(), u.Port()
	if host == "" {
		return "", errors.New("has no host; write host:port")
	}
	if strings.ContainsAny(host, "/,; \t@") || strings.Contains(host, ":") && net.ParseIP(withoutZone(host)) == nil {
		return "", errNotURL // an IPv6 address is the only host with colons
	}
	if port == "" {
		port = usual
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", errors.New("has a port that is not in 1-65535")
	}
	return net.JoinHostPort(host, port), nil
}

// withoutZone is an IPv6 address without its %interface.
func withoutZone(host string) string {
	host, _, _ = strings.Cut(host, "%")
	return host
}

func databaseNumber(s string) (int, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0, errors.New("has a database that is not a number from 0 on")
	}
	return int(n), nil
}

// parameters are the query's, each of which may stand once.
func parameters(u *url.URL) (map[string]string, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("has parameters that cannot be read; percent-encode what is special in them")
	}
	params := make(map[string]string, len(query))
	for name, values := range query {
		if len(values) != 1 {
			return nil, errors.New("has a parameter twice")
		}
		params[name] = values[0]
	}
	return params, nil
}

// parseTLS reads the parameters of a rediss:// URL. Without a host every server is
// checked against the name or address under which it is reached.
func parseTLS(host string, params map[string]string) (*tls.Config, error) {
	for name := range params {
		if !slices.Contains([]string{"ca_file", "cert_file", "key_file", "server_name", "skip_verify"}, name) {
			return nil, errors.New("has a parameter that is not known; " +
				"TLS takes ca_file, cert_file, key_file, server_name and skip_verify")
		}
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host}
	if name := params["server_name"]; name != "" {
		c.ServerName = name
	}
	switch params["skip_verify"] {
	case "", "false":
	case "true":
		c.InsecureSkipVerify = true // the user's own decision, in so many words
	default:
		return nil, errors.New("skip_verify is true or false")
	}
	if file := params["ca_file"]; file != "" {
		pem, err := os.ReadFile(file) // #nosec G304 -- the user names the file
		if err != nil {
			return nil, fmt.Errorf("ca_file cannot be read: %w", withoutPath(err))
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("ca_file holds no PEM certificate")
		}
	}
	cert, key := params["cert_file"], params["key_file"]
	if (cert == "") != (key == "") {
		return nil, errors.New("cert_file and key_file go together")
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("cert_file and key_file cannot be used: %w", withoutPath(err))
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// withoutPath leaves the reason of a failed read: where a URL was misread, the
// path may be anything.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}

// What of an address can be nothing but an address.
var (
	plainHost = regexp.MustCompile(`^(\[[0-9a-fA-F:.]+\]|[0-9A-Za-z._-]+)(:[0-9]{1,5})?(/[0-9]{0,3})?$`)
	plainName = regexp.MustCompile(`^[0-9A-Za-z._-]+`)
	plainPath = regexp.MustCompile(`^/[0-9A-Za-z._/-]+$`)
)

// redactURL shows of an address what cannot be a secret, also where it cannot
// be parsed: nothing before the last @ and nothing from ? or # on.
func redactURL(s string) string {
	scheme, rest := splitScheme(s)
	switch scheme {
	case "":
	case "redis", "rediss", "valkey", "valkeys", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster":
		scheme += "://"
	default:
		scheme = "…://"
	}
	hidden := ""
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		hidden, rest = "…@", rest[i+1:]
	}
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest = rest[:i]
	}
	switch {
	case plainHost.MatchString(rest), scheme == "unix://" && plainPath.MatchString(rest):
	default: // ":secret" or "user:secret", where the host was forgotten
		rest = plainName.FindString(rest) + "…"
	}
	return scheme + hidden + rest
}
