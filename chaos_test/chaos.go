// Package chaos is where the lock is attacked: its tests kill, stop, empty and
// re-point real Redis servers, in containers and as child processes, while
// clients in several processes lock. It is a module of its own, so that nobody
// who imports redlock gets testcontainers-go.
//
// The tests are in the _test.go files; the clients write what they saw with
// package history, and the program in judge reads that and gives the verdict.
package chaos
