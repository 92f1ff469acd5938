package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Placeholders is how a database marks arguments in a statement.
type Placeholders int

// The ways that databases know.
const (
	// Question marks: ?, as SQLite and MySQL have.
	Question Placeholders = iota
	// Dollar and number: $1, as PostgreSQL has.
	Dollar
)

// SQL keeps the highest number per key in a table of the database that has the
// data, so that number and data are written in one transaction. It is tested with
// SQLite and PostgreSQL.
type SQL struct {
	db                     *sql.DB
	create, update, insert string
	query                  string
}

// identifier is what may be a table's name: one that needs no quotes, with or
// without a schema.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$`)

// NewSQL makes a gate over a table that [SQL.Create] makes, or a migration of
// yours: name VARCHAR(512) PRIMARY KEY, fence BIGINT NOT NULL. table is a plain
// identifier, with or without a schema. It does no I/O.
func NewSQL(db *sql.DB, table string, p Placeholders) (*SQL, error) {
	switch {
	case db == nil:
		return nil, errors.New("fence: db is nil: open one first")
	case !identifier.MatchString(table):
		return nil, fmt.Errorf("fence: table %.80q: must be an identifier that needs no quotes, as in fences or app.fences", table)
	case p != Question && p != Dollar:
		return nil, fmt.Errorf("fence: placeholders %d: must be Question or Dollar", int(p))
	}
	number := func(text string) string {
		if p == Question {
			return text
		}
		for i := 1; strings.Contains(text, "?"); i++ {
			text = strings.Replace(text, "?", "$"+strconv.Itoa(i), 1)
		}
		return text
	}
	return &SQL{
		db:     db,
		create: "CREATE TABLE IF NOT EXISTS " + table + " (name VARCHAR(512) PRIMARY KEY, fence BIGINT NOT NULL)",
		update: number("UPDATE " + table + " SET fence = ? WHERE name = ? AND fence <= ?"),
		insert: number("INSERT INTO " + table + " (name, fence) VALUES (?, ?)"),
		query:  number("SELECT fence FROM " + table + " WHERE name = ?"),
	}, nil
}

// Create makes the table unless it is there.
func (s *SQL) Create(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, s.create)
	return err
}

// firstTries is how often Do begins again because another transaction was the
// first to write a key.
const firstTries = 3

// Do runs write in a transaction whose first statement is the conditional UPDATE of
// the key's number, and commits it. That statement locks the key's row until the
// end, so an older write is either committed before or refused after. key is at
// most 512 bytes. A write that fails is rolled back, the number with it.
//
// Errors: a *[StaleError] or *[NumberError], with nothing written; else those of
// write and of the database.
func (s *SQL) Do(ctx context.Context, key string, n uint64, write func(ctx context.Context, tx *sql.Tx) error) error {
	if err := Check(key, n); err != nil {
		return err
	}
	for try := 1; ; try++ {
		again, err := s.once(ctx, key, n, write)
		if !again || try == firstTries {
			return err
		}
	}
}

// once is one transaction. again says that the key's row came into being meanwhile;
// write did not run then.
func (s *SQL) once(ctx context.Context, key string, n uint64, write func(context.Context, *sql.Tx) error) (again bool, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }() // of no effect once it is committed
	if again, err = s.pass(ctx, tx, key, n); err != nil {
		return again, err
	}
	if err := write(ctx, tx); err != nil {
		return false, err
	}
	return false, tx.Commit()
}

// pass raises the number, or says that it is stale.
func (s *SQL) pass(ctx context.Context, tx *sql.Tx, key string, n uint64) (again bool, err error) {
	res, err := tx.ExecContext(ctx, s.update, int64(n), key, int64(n)) //nolint:gosec // at most 2^53
	if err != nil {
		return false, err
	}
	if rows, err := res.RowsAffected(); err != nil || rows > 0 {
		return false, err
	}
	var highest int64
	switch err := tx.QueryRowContext(ctx, s.query, key).Scan(&highest); {
	case errors.Is(err, sql.ErrNoRows):
		_, err := tx.ExecContext(ctx, s.insert, key, int64(n)) //nolint:gosec // as above
		return err != nil, err
	case err != nil:
		return false, err
	case uint64(highest) > n: //nolint:gosec // the column has what was written above
		return false, &StaleError{Key: key, Fence: n, Highest: uint64(highest)} //nolint:gosec // as above
	}
	return false, nil // an UPDATE that changed nothing counts no row in MySQL
}

// Execer is a *sql.DB, *sql.Conn or *sql.Tx.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Exec runs an UPDATE of your own, for a table whose rows have a column for the
// number, with one row at stake:
//
//	err = fence.Exec(ctx, db, "order:7", n, `UPDATE orders SET state = $1, fence = $2
//	    WHERE id = $3 AND fence <= $2`, state, int64(n), id)
//
// No row is a *[StaleError] (or the row is not there); a number that is none is a
// *[NumberError], with nothing sent. MySQL has to count the rows that were found,
// not those that were changed: clientFoundRows=true.
func Exec(ctx context.Context, db Execer, key string, n uint64, update string, args ...any) error {
	if err := Check(key, n); err != nil {
		return err
	}
	res, err := db.ExecContext(ctx, update, args...)
	if err != nil {
		return err
	}
	rows, err := res.RowsAffected()
	if err == nil && rows == 0 {
		err = &StaleError{Key: key, Fence: n}
	}
	return err
}
