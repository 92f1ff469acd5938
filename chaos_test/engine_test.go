package chaos_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

const (
	publicImage = "redis:7-alpine"
	localImage  = "redlock/redis:local" // what image.sh builds
	redisPort   = "6379/tcp"
	// A pull may hang for ever where packets to the registry are dropped.
	pullPatience = 90 * time.Second
)

// engine is the container engine, or the end of the test.
func engine(t *testing.T) *testcontainers.DockerClient {
	t.Helper()
	// The reaper is an image of its own, and need not be there; the test cleans
	// up after itself. In a container the guess of the engine's address is the
	// gateway, but ports are published on loopback.
	setDefault(t, "TESTCONTAINERS_RYUK_DISABLED", "true")
	if _, err := os.Stat("/.dockerenv"); err == nil {
		setDefault(t, "TESTCONTAINERS_HOST_OVERRIDE", "127.0.0.1")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	cli, err := dial(ctx)
	if err != nil {
		missing(t, "no container engine answers, so nothing was tested in containers: %v", err)
	}
	t.Cleanup(func() { _ = cli.Close() })
	return cli
}

// dial makes an error of testcontainers' panic where it finds no engine.
func dial(ctx context.Context) (cli *testcontainers.DockerClient, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	return testcontainers.NewDockerClientWithOpts(ctx)
}

func setDefault(t *testing.T, key, value string) {
	t.Helper()
	if os.Getenv(key) == "" {
		t.Setenv(key, value)
	}
}

// redisImage is an image that the engine has: the one that is named, the public
// one, or one built from this machine's packages.
func redisImage(t *testing.T, cli *testcontainers.DockerClient) string {
	t.Helper()
	named := os.Getenv("REDLOCK_REDIS_IMAGE")
	if named == "" {
		if has(t, cli, publicImage) || pull(t, cli, publicImage) {
			return publicImage
		}
		named = localImage
	}
	if has(t, cli, named) || named != localImage && pull(t, cli, named) {
		return named
	}
	ctx, cancel := context.WithTimeout(t.Context(), pullPatience)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "./image.sh", named).CombinedOutput(); err != nil {
		missing(t, "no image %s, and it cannot be built: %v\n%s", named, err, out)
	}
	return named
}

func has(t *testing.T, cli *testcontainers.DockerClient, image string) bool {
	t.Helper()
	_, err := cli.ImageInspect(t.Context(), image)
	return err == nil
}

func pull(t *testing.T, cli *testcontainers.DockerClient, image string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pullPatience)
	defer cancel()
	progress, err := cli.ImagePull(ctx, image, client.ImagePullOptions{})
	if err == nil {
		err = progress.Wait(ctx)
		_ = progress.Close()
	}
	if err != nil {
		t.Logf("cannot pull %s: %v", image, err)
	}
	return err == nil
}

// node is a Redis in a container, at a fixed port of the host: a port that the
// engine chooses changes with every start.
type node struct {
	t    *testing.T
	cli  *testcontainers.DockerClient
	c    *testcontainers.DockerContainer
	addr string
}

// startNodes starts n of them. They persist their data, as a lock's nodes should.
func startNodes(t *testing.T, n int) (all []*node, addrs []string) {
	t.Helper()
	cli := engine(t)
	image := redisImage(t, cli)
	t.Logf("image %s", image)
	for range n {
		nd := &node{t: t, cli: cli}
		nd.run(image)
		all, addrs = append(all, nd), append(addrs, nd.addr)
	}
	return all, addrs
}

func (n *node) run(image string) {
	n.t.Helper()
	var err error
	for range 3 { // a port that is free now may be taken when the engine binds it
		n.addr = freeAddr(n.t)
		_, port, _ := net.SplitHostPort(n.addr)
		n.c, err = testcontainers.Run(n.t.Context(), image,
			testcontainers.WithCmd("redis-server", "--bind", "0.0.0.0", "--protected-mode", "no", "--save", "",
				"--appendonly", "yes", "--appendfsync", "always"),
			testcontainers.WithExposedPorts(redisPort),
			testcontainers.WithHostConfigModifier(func(h *container.HostConfig) {
				h.PortBindings = network.PortMap{
					network.MustParsePort(redisPort): {{HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: port}},
				}
			}),
			testcontainers.WithWaitStrategyAndDeadline(time.Minute,
				wait.ForLog("Ready to accept connections").WithPollInterval(10*time.Millisecond)),
		)
		testcontainers.CleanupContainer(n.t, n.c)
		if err == nil {
			break
		}
	}
	if err != nil {
		n.t.Fatalf("starting a container of %s: %v", image, err)
	}
	awaitRedis(n.t, n.addr)
}

// kill ends the node without a word to anybody (SIGKILL).
func (n *node) kill() {
	n.t.Helper()
	if _, err := n.cli.ContainerKill(n.t.Context(), n.c.GetContainerID(), client.ContainerKillOptions{Signal: "KILL"}); err != nil {
		n.t.Fatalf("killing the container at %s: %v", n.addr, err)
	}
}

// start starts it again, with its data and at its port.
func (n *node) start() {
	n.t.Helper()
	if _, err := n.cli.ContainerStart(n.t.Context(), n.c.GetContainerID(), client.ContainerStartOptions{}); err != nil {
		n.t.Fatalf("starting the container at %s: %v", n.addr, err)
	}
	awaitRedis(n.t, n.addr)
}

// freeAddr is an address on loopback that nobody listens on now.
func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// awaitRedis waits until a server answers PING.
func awaitRedis(t *testing.T, addr string) {
	t.Helper()
	eventually(t, 10*time.Second, "an answer of "+addr, func() bool {
		c := admin(t, addr) // a new one for each try: a pool remembers that its dial failed
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return c.Ping(ctx).Err() == nil
	})
}
