package history_test

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/chaos_test/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRoundTrip(t *testing.T) {
	now, err := history.Now()
	if err != nil {
		t.Fatal(err)
	}
	want := []history.Record{
		{Kind: history.Begin, Client: "a", At: now, End: now + 10},
		{Kind: history.Acquire, Client: "a", Name: "n", At: now, Acquired: now + 1, Released: now + 2, Result: history.OK},
		{Kind: history.Close, Client: "a", At: now, Goroutines: 3, BaseGoroutines: 3},
	}
	var b strings.Builder
	w := history.NewWriter(&b)
	for i := range want {
		if err := w.Write(&want[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	got, err := history.Read(strings.NewReader(b.String()))
	if err != nil || len(got) != len(want) {
		t.Fatalf("read %d records, %v; want %d", len(got), err, len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("record %d: %+v, want %+v", i, got[i], want[i])
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"torn":    `{"kind":"acquire","cli`,
		"unknown": `{"kind":"acquire","colour":"red"}`,
	} {
		if _, err := history.Read(strings.NewReader(text)); err == nil {
			t.Errorf("%s line was read without an error", name)
		}
	}
}

func TestNowIsMonotonic(t *testing.T) {
	last := int64(0)
	for range 1000 {
		now, err := history.Now()
		if err != nil || now < last {
			t.Fatalf("now %d after %d, %v", now, last, err)
		}
		last = now
	}
}
