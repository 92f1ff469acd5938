//go:build linux

package fencesql

import (
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/stretchr/testify/require"
)

// postgres starts a PostgreSQL of its own, on a socket in a folder of its own, and
// gives its DSN. Without the server's programs it skips, or fails where CI=true.
func postgres(t *testing.T) (dsn string) {
	t.Helper()
	initdb, err := program("initdb")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("", "fencesql") // short: a socket's path has 107 bytes
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 { // the server refuses to run as root
		attr.Credential = owner(t, dir)
	}
	data := filepath.Join(dir, "data")
	out, err := command(attr, dir, initdb, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync").CombinedOutput()
	require.NoError(t, err, "%s", out)
	server := command(attr, dir, filepath.Join(filepath.Dir(initdb), "postgres"), "-D", data, "-k", dir,
		"-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=60", "-c", "log_min_messages=fatal")
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGINT) // a fast shutdown
		_ = server.Wait()
	})
	dsn = "host=" + dir + " user=postgres dbname=postgres sslmode=disable"
	db := connect(t, "pgx", dsn)
	require.Eventually(t, func() bool { return db.PingContext(t.Context()) == nil }, 20*time.Second, 20*time.Millisecond)
	return dsn
}

// program finds a program of the server; Debian keeps them out of PATH.
func program(name string) (string, error) {
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name); len(found) > 0 {
		return found[len(found)-1], nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", errors.New("no PostgreSQL server: apt-get install postgresql")
	}
	return filepath.EvalSymlinks(path)
}

// owner is the user that Debian's package runs the server as, who gets the folder.
func owner(t *testing.T, dir string) *syscall.Credential {
	t.Helper()
	u, err := user.Lookup("postgres")
	require.NoError(t, err)
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	require.NoError(t, err)
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	require.NoError(t, err)
	require.NoError(t, os.Chown(dir, int(uid), int(gid)))
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func command(attr *syscall.SysProcAttr, dir, path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.SysProcAttr = dir, attr
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "HOME=" + dir}
	return cmd
}

// connect opens a database, closed when the test ends.
func connect(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	db.SetMaxOpenConns(20)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}
