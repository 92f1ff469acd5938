package cli

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	waitFor = 5 * time.Second
	tick    = 5 * time.Millisecond
)

// started runs a script under the lock as a process and returns once the script
// says that it is there.
func started(t *testing.T, f *fleet, text string, flags ...string) (wait func() int, pid, child int) {
	t.Helper()
	first := "" // traps stand before the script says that it is there
	if trap, rest, ok := strings.Cut(text, "; while"); ok && strings.HasPrefix(trap, "trap ") {
		first, text = trap+"\n", "while"+rest
	}
	args := append(append([]string{"run"}, flags...), "job", "--", script(t, first+"echo $$\n"+text))
	cmd := process(t, f.env, args...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	child, err = strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	return func() int {
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
		return cmd.ProcessState.ExitCode()
	}, cmd.Process.Pid, child
}

func TestCLI02_SignalsAreForwarded(t *testing.T) {
	f := newFleet(t)
	for sig, code := range map[syscall.Signal]int{
		syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129, syscall.SIGQUIT: 131, syscall.SIGUSR1: 138,
	} {
		wait, pid, _ := started(t, f, "while :; do sleep 0.01; done")
		require.NoError(t, syscall.Kill(pid, sig))
		require.Equal(t, code, wait(), "signal %v", sig)
		f.free(t)
	}
	wait, pid, _ := started(t, f, "trap 'exit 7' TERM; while :; do sleep 0.01; done")
	require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
	require.Equal(t, 7, wait(), "a command that handles the signal decides")
}

func TestCLI02_TheCommandDiesWithTheWrapper(t *testing.T) {
	f := newFleet(t)
	wait, pid, child := started(t, f, "exec sleep 100")
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	wait()
	require.Eventually(t, func() bool { return syscall.Kill(child, 0) != nil || zombie(child) }, waitFor, tick)
	f.free(t) // by the TTL
}

// zombie says whether a process has ended and only its parent has not noticed.
func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func TestCLI03_AWaitEndsWithASignal(t *testing.T) {
	f := newFleet(t)
	wait, pid, _ := started(t, f, "while :; do sleep 0.01; done")
	for sig, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		never := filepath.Join(t.TempDir(), "never")
		cmd := process(t, f.env, "run", "job", "--", "touch", never)
		before := f.sets(t)
		require.NoError(t, cmd.Start())
		require.Eventually(t, func() bool { return f.sets(t) > before }, waitFor, tick, "it never tried")
		begin := time.Now()
		require.NoError(t, cmd.Process.Signal(sig))
		_ = cmd.Wait()
		require.Equal(t, code, cmd.ProcessState.ExitCode())
		require.Less(t, time.Since(begin), 2*time.Second)
		require.NoFileExists(t, never)
	}
	require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
	wait()
	f.free(t)
}

func TestCLI04_ExitCodesPassThrough(t *testing.T) {
	f := newFleet(t)
	for text, code := range map[string]int{"exit 0": 0, "exit 1": 1, "exit 2": 2, "exit 75": 75, "exit 255": 255, "kill -SEGV $$": 139} {
		require.Equal(t, code, run(t, f.env, "run", "job", "--", script(t, text)).code, text)
	}
	require.Equal(t, 127, run(t, f.env, "run", "job", "--", "/no/such/command").code)
	require.Equal(t, 127, run(t, f.env, "run", "job", "--", "no-such-command-anywhere").code)
	plain := filepath.Join(t.TempDir(), "plain")
	require.NoError(t, os.WriteFile(plain, []byte("x"), 0o600))
	require.Equal(t, 126, run(t, f.env, "run", "job", "--", plain).code)
	f.free(t)
}

func TestCLI04_OwnCodesCanBeMoved(t *testing.T) {
	f := newFleet(t)
	wait, pid, _ := started(t, f, "while :; do sleep 0.01; done")
	require.Equal(t, 75, run(t, f.env, "run", "--wait", "0s", "job", "--", "true").code)
	require.Equal(t, 3, run(t, f.env, "run", "--wait", "0s", "--exit-held", "3", "job", "--", "true").code)
	require.Equal(t, 64, run(t, f.env, "run", "--exit-held", "256", "job", "--", "true").code)
	require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
	wait()
	dead := []string{"REDLOCK_NODES=127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"}
	require.Equal(t, 69, run(t, dead, "run", "--wait", "100ms", "job", "--", "true").code)
	require.Equal(t, 4, run(t, dead, "run", "--wait", "100ms", "--exit-no-quorum", "4", "job", "--", "true").code)
	require.Equal(t, 78, run(t, append(f.env, "REDLOCK_TTL=10s", "REDLOCK_MAX_TTL=10s"), "run", "job", "--", "true").code, "another max TTL than the seal's")
}

func TestCLI05_ArgumentsAndStreams(t *testing.T) {
	f := newFleet(t)
	args := []string{"a b", "-v", "--help", "", "*", "$HOME", "--"}
	r := run(t, f.env, append([]string{"run", "job", "--", "printf", "%s|"}, args...)...)
	require.Equal(t, said{0, strings.Join(args, "|") + "|", ""}, r)

	cmd := process(t, f.env, "run", "job", "--", "cat")
	cmd.Stdin = strings.NewReader("through")
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, "through", string(out))

	for _, bad := range [][]string{{"run", "job"}, {"run", "job", "--"}, {"run", "job", "--", ""}, {"run", "--", "true"}, {"run", "job", "true"}} {
		r := call(t, f.env, bad...)
		require.Equal(t, 64, r.code, "%q", bad)
		require.NotEmpty(t, r.err)
	}
}

func TestCLI06_WaitLimits(t *testing.T) {
	f := newFleet(t)
	wait, pid, _ := started(t, f, "while :; do sleep 0.01; done")
	begin := time.Now()
	require.Equal(t, 75, run(t, f.env, "run", "--wait", "500ms", "job", "--", "true").code)
	require.GreaterOrEqual(t, time.Since(begin), 500*time.Millisecond)
	require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
	wait()
	require.Equal(t, 0, run(t, f.env, "run", "job", "--", "true").code)
}

func TestCLI07_AKilledRunnerIsFreedByItsTTL(t *testing.T) {
	f := newFleet(t)
	wait, pid, _ := started(t, f, "exec sleep 100")
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	wait()
	require.Equal(t, 0, run(t, f.env, "run", "--wait", "5s", "job", "--", "true").code)
}

func TestRunStopsTheCommandWhenTheLeaseIsLost(t *testing.T) {
	f := newFleet(t)
	mark := filepath.Join(t.TempDir(), "term")
	wait, _, child := started(t, f, "trap 'date > "+mark+"' TERM; while :; do sleep 0.01; done")
	for _, s := range f.servers[:2] {
		s.Stop()
	}
	require.Equal(t, 70, wait())
	require.FileExists(t, mark, "it was told to end before it was killed")
	require.Eventually(t, func() bool { return syscall.Kill(child, 0) != nil || zombie(child) }, waitFor, tick)
	for _, s := range f.servers[:2] {
		s.Cont()
	}
}

func TestRunMaxHold(t *testing.T) {
	f := newFleet(t)
	wait, _, _ := started(t, f, "exec sleep 100", "--max-hold", "500ms")
	require.Equal(t, 70, wait())
}

func TestRunChildSeesNoSecrets(t *testing.T) {
	f := newFleet(t)
	env := append(slices.Clone(f.env), "REDLOCK_PASSWORD_FILE=/dev/null", "REDLOCK_SENTINEL_PASSWORD=S3CRET", "PLAIN=kept")
	r := run(t, env, "run", "job", "--", "env")
	require.Equal(t, 0, r.code, r.err)
	require.NotContains(t, r.out, "S3CRET")
	require.NotContains(t, r.out, "REDLOCK_PASSWORD_FILE")
	require.Contains(t, r.out, "PLAIN=kept")
	require.Contains(t, r.out, "REDLOCK_NAME=job")
	require.Contains(t, r.out, "REDLOCK_UNTIL=2")
	require.Contains(t, r.out, "REDLOCK_FENCE=1")
}

func TestTTL07_HoldAtLeastKeepsShortJobsFromRunningTwice(t *testing.T) {
	f := newFleet(t)
	var wg sync.WaitGroup
	codes := make(chan int, 4)
	for range 4 {
		wg.Go(func() {
			codes <- run(t, f.env, "run", "--wait", "0s", "--hold-at-least", "1s", "job", "--", "true").code
		})
	}
	wg.Wait()
	close(codes)
	count := map[int]int{}
	for c := range codes {
		count[c]++
	}
	require.LessOrEqual(t, count[0], 1, "%v", count)
	require.Equal(t, 4, count[0]+count[75], "%v", count)
}
