//go:build linux

package fencesql

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/redlock-go/redlock/fence"
	"github.com/redlock-go/redlock/fence/fencetest"
)

// database is one of those that are tested.
type database struct {
	driver string
	marks  fence.Placeholders
	dsn    func(t *testing.T) string
}

func sqlite(t *testing.T) string {
	return "file:" + filepath.Join(t.TempDir(), "db") + "?_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)"
}

// each runs a test on every database.
func each(t *testing.T, f func(t *testing.T, d database)) {
	t.Run("SQLite", func(t *testing.T) { f(t, database{"sqlite", fence.Question, sqlite}) })
	t.Run("PostgreSQL", func(t *testing.T) {
		dsn := postgres(t)
		f(t, database{"pgx", fence.Dollar, func(t *testing.T) string { return fresh(t, dsn) }})
	})
}

// fresh makes an empty schema on a server, which stands for a new database.
func fresh(t *testing.T, dsn string) string {
	t.Helper()
	name := "t_" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, strings.ToLower(t.Name()[strings.LastIndexByte(t.Name(), '/')+1:]))
	db := connect(t, "pgx", dsn)
	_, err := db.ExecContext(t.Context(), "CREATE SCHEMA "+name[:min(len(name), 60)])
	require.NoError(t, err)
	return dsn + " search_path=" + name[:min(len(name), 60)]
}

// gated is a table behind fence.SQL.
type gated struct {
	db    *sql.DB
	gate  *fence.SQL
	write string
	read  string
}

func openGated(t *testing.T, d database) *gated {
	t.Helper()
	db := connect(t, d.driver, d.dsn(t))
	_, err := db.ExecContext(t.Context(), "CREATE TABLE data (name VARCHAR(512) PRIMARY KEY, value TEXT NOT NULL)")
	require.NoError(t, err)
	gate, err := fence.NewSQL(db, "fences", d.marks)
	require.NoError(t, err)
	require.NoError(t, gate.Create(t.Context()))
	require.NoError(t, gate.Create(t.Context()), "it may be there")
	return &gated{
		db: db, gate: gate,
		write: mark(d, "INSERT INTO data (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value"),
		read:  mark(d, "SELECT value FROM data WHERE name = ?1"),
	}
}

// mark writes the placeholders as the database has them.
func mark(d database, text string) string {
	if d.marks == fence.Dollar {
		return strings.ReplaceAll(text, "?", "$")
	}
	return text
}

func (g *gated) Write(ctx context.Context, key string, n uint64, value string) error {
	return g.gate.Do(ctx, key, n, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, g.write, key, value)
		return err
	})
}

func (g *gated) Read(ctx context.Context, key string) (string, error) {
	return read(ctx, g.db, g.read, key)
}

// Reopen is the same database, as another process would see it.
func (g *gated) Reopen(context.Context) (fencetest.Resource, error) { return g, nil }

func read(ctx context.Context, db *sql.DB, query, key string) (value string, err error) {
	err = db.QueryRowContext(ctx, query, key).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return value, err
}

func TestSQL(t *testing.T) {
	each(t, func(t *testing.T, d database) {
		fencetest.Run(t, func(t *testing.T) fencetest.Resource { return openGated(t, d) })
	})
}

// rows is a table whose rows have the number themselves.
type rows struct {
	db          *sql.DB
	write, read string
}

func openRows(t *testing.T, d database) *rows {
	t.Helper()
	db := connect(t, d.driver, d.dsn(t))
	_, err := db.ExecContext(t.Context(), "CREATE TABLE data (name TEXT PRIMARY KEY, value TEXT NOT NULL, fence BIGINT NOT NULL)")
	require.NoError(t, err)
	return &rows{db, mark(d, "INSERT INTO data (name, value, fence) VALUES (?1, ?2, ?3) ON CONFLICT (name) DO UPDATE "+
		"SET value = excluded.value, fence = excluded.fence WHERE data.fence <= excluded.fence"), mark(d, "SELECT value FROM data WHERE name = ?1")}
}

func (r *rows) Write(ctx context.Context, key string, n uint64, value string) error {
	return fence.Exec(ctx, r.db, key, n, r.write, key, value, int64(n))
}

func (r *rows) Read(ctx context.Context, key string) (string, error) {
	return read(ctx, r.db, r.read, key)
}

// Reopen is the same database, as another process would see it.
func (r *rows) Reopen(context.Context) (fencetest.Resource, error) { return r, nil }

func TestRows(t *testing.T) {
	each(t, func(t *testing.T, d database) {
		fencetest.Run(t, func(t *testing.T) fencetest.Resource { return openRows(t, d) })
	})
}

// A write that fails leaves nothing, the number included; a stale one says what the
// highest was.
func TestSQLErrors(t *testing.T) {
	each(t, func(t *testing.T, d database) {
		g, boom := openGated(t, d), errors.New("boom")
		require.NoError(t, g.Write(t.Context(), "a", 34, "kept"))
		require.ErrorIs(t, g.gate.Do(t.Context(), "a", 35, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, g.write, "a", "lost")
			require.NoError(t, err)
			return boom
		}), boom)
		got, err := g.Read(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, "kept", got)
		require.NoError(t, g.Write(t.Context(), "a", 34, "again"), "35 was rolled back")
		stale, ok := errors.AsType[*fence.StaleError](g.Write(t.Context(), "a", 33, "late"))
		require.True(t, ok)
		require.Equal(t, fence.StaleError{Key: "a", Fence: 33, Highest: 34}, *stale)
	})
}

func TestNewSQLBadArguments(t *testing.T) {
	db := connect(t, "sqlite", sqlite(t))
	for _, table := range []string{"", "a b", "a;DROP TABLE b", "1a", "a.b.c", `"a"`, strings.Repeat("a", 64)} {
		_, err := fence.NewSQL(db, table, fence.Question)
		require.ErrorContains(t, err, "identifier", "%q", table)
	}
	_, err := fence.NewSQL(db, "fences", 7)
	require.ErrorContains(t, err, "placeholders")
	_, err = fence.NewSQL(nil, "fences", fence.Dollar)
	require.ErrorContains(t, err, "db is nil")
	_, err = fence.NewSQL(db, "app.fences", fence.Dollar)
	require.NoError(t, err)
}
