// Package fencesql tests the SQL gates of package fence on SQLite and on a real
// PostgreSQL. It is a module of its own, so that their drivers are not among the
// dependencies of who imports redlock.
package fencesql
