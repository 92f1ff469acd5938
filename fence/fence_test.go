package fence_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/fence"
	"github.com/redlock-go/redlock/fence/fencetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// values are a resource behind a Gate.
type values struct {
	gate fence.Gate
	m    sync.Map
}

func (v *values) Write(_ context.Context, key string, n uint64, value string) error {
	return v.gate.Do(key, n, func() error {
		v.m.Store(key, value)
		return nil
	})
}

func (v *values) Read(_ context.Context, key string) (string, error) {
	value, _ := v.m.Load(key)
	text, _ := value.(string)
	return text, nil
}

func TestGate(t *testing.T) {
	fencetest.Run(t, func(*testing.T) fencetest.Resource { return &values{} })
}

func TestGateDetails(t *testing.T) {
	var g fence.Gate
	boom := errors.New("boom")
	require.ErrorIs(t, g.Do("a", 35, func() error { return boom }), boom)
	err := g.Do("a", 34, func() error { panic("a late write ran") })
	stale, ok := errors.AsType[*fence.StaleError](err)
	require.True(t, ok, "a number counts as seen also if the write failed")
	require.Equal(t, fence.StaleError{Key: "a", Fence: 34, Highest: 35}, *stale)
	require.ErrorContains(t, err, "35")
	require.Panics(t, func() { _ = g.Do("a", 36, func() error { panic("boom") }) })
	require.EqualValues(t, 36, g.Highest("a"), "a panic leaves the key unlocked")
	g.Raise("a", 40)
	g.Raise("a", 39)
	require.EqualValues(t, 40, g.Highest("a"))
	require.Zero(t, g.Highest("b"))
	g.Forget("a")
	require.Zero(t, g.Highest("a"))
	require.ErrorContains(t, g.Do("a", 0, nil), "WithFencing")
	require.ErrorContains(t, g.Do("a", fence.Most+1, nil), "9007199254740991")
}

// files are a resource in a folder.
type files struct{ dir string }

func (f files) path(key string) string { return filepath.Join(f.dir, key) }

func (f files) Write(_ context.Context, key string, n uint64, value string) error {
	return fence.WriteFile(f.path(key), n, []byte(value), 0o600)
}

func (f files) Read(_ context.Context, key string) (string, error) {
	text, err := os.ReadFile(f.path(key))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return string(text), err
}

func (f files) Reopen(context.Context) (fencetest.Resource, error) { return f, nil }

func TestFile(t *testing.T) {
	fencetest.Run(t, func(t *testing.T) fencetest.Resource { return files{t.TempDir()} })
}

func TestFileDetails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report")
	require.NoError(t, fence.WriteFile(path, 35, []byte("x"), 0o640))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode().Perm())
	require.NoError(t, os.WriteFile(path+".fence", []byte("torn"), 0o600))
	require.ErrorContains(t, fence.WriteFile(path, 36, nil, 0o600), "20 digits", "what cannot be compared is not passed")
	require.Error(t, fence.WriteFile(filepath.Join(path, "no-folder"), 1, nil, 0o600))
	left, err := filepath.Glob(path + ".tmp*")
	require.NoError(t, err)
	require.Empty(t, left)
}

// service is a resource behind HTTP: PUT and GET of /key.
type service struct{ url string }

func newService(t *testing.T) service {
	var gate fence.Gate
	var m sync.Map
	key := func(r *http.Request) string { return r.URL.Path }
	server := httptest.NewServer(fence.Middleware(&gate, key)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			text, _ := io.ReadAll(r.Body)
			m.Store(key(r), string(text))
			return
		}
		value, _ := m.Load(key(r))
		text, _ := value.(string)
		_, _ = io.WriteString(w, text)
	})))
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return service{server.URL}
}

func (s service) send(ctx context.Context, method, key, number, value string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+"/"+key, strings.NewReader(value))
	if err != nil {
		return nil, err
	}
	if number != "" {
		req.Header.Set(fence.Header, number)
	}
	return http.DefaultClient.Do(req)
}

func (s service) Write(ctx context.Context, key string, n uint64, value string) error {
	h := http.Header{}
	fence.SetHeader(h, n)
	resp, err := s.send(ctx, http.MethodPut, key, h.Get(fence.Header), value)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusBadRequest {
		return fence.Check(key, n)
	}
	return fence.Response(resp, key, n)
}

func (s service) Read(ctx context.Context, key string) (string, error) {
	resp, err := s.send(ctx, http.MethodGet, key, "", "")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

func TestMiddleware(t *testing.T) {
	fencetest.Run(t, func(t *testing.T) fencetest.Resource { return newService(t) })
}

func TestMiddlewareAnswers(t *testing.T) {
	s := newService(t)
	for _, c := range []struct {
		method, number, highest string
		want                    int
	}{
		{"PUT", "", "", 428}, {"PUT", "x", "", 400}, {"PUT", "0", "", 400}, {"PUT", "-1", "", 400}, {"PUT", "35", "", 200},
		{"PUT", "34", "35", 412}, {"DELETE", "34", "35", 412}, {"GET", "", "", 200}, {"GET", "34", "", 200},
	} {
		resp, err := s.send(t.Context(), c.method, "a", c.number, "v")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, c.want, resp.StatusCode, "%s %q", c.method, c.number)
		require.Equal(t, c.highest, resp.Header.Get(fence.Header))
	}
	err := s.Write(t.Context(), "a", 34, "v")
	stale, ok := errors.AsType[*fence.StaleError](err)
	require.True(t, ok)
	require.EqualValues(t, 35, stale.Highest)

	broken := fence.Middleware(failing{}, func(*http.Request) string { return "a" })(http.NotFoundHandler())
	rec := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodPost, "/", nil)
	fence.SetHeader(req.Header, 1)
	broken.ServeHTTP(rec, req)
	require.Equal(t, 500, rec.Code)
	require.NotContains(t, rec.Body.String(), "secret", "what failed inside is nobody's business")
}

type failing struct{}

func (failing) Do(string, uint64, func() error) error { return errors.New("secret") }
