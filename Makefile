# redlock: what a contributor runs. "make" alone lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The root module and every nested one (chaos_test, bench, …); they say
# "replace … => ../", so there is no go.work.
NESTED  := $(patsubst %/go.mod,%,$(wildcard */go.mod))
MODULES := . $(NESTED)

# Real servers answer real time, so results are never taken from the cache.
TESTFLAGS ?= -count=1 -timeout 15m -p 2
FUZZTIME  ?= 20s
RACECOUNT ?= 3
SEEDS     ?= 10000
FIRSTSEED ?= 0

GOLANGCI_VERSION := v2.15.0
GOLANGCI         := $(CURDIR)/bin/golangci-lint-$(GOLANGCI_VERSION)

# Testcontainers: its reaper is an image of its own, which may not be there;
# the tests clean up after themselves. In a container its guess of the engine's
# address is the gateway, but ports are published on loopback.
export TESTCONTAINERS_RYUK_DISABLED ?= true
ifneq ($(wildcard /.dockerenv),)
export TESTCONTAINERS_HOST_OVERRIDE ?= 127.0.0.1
endif

# The image for containers: the one that "make image" builds, unless you name one.
test race chaos image: export REDLOCK_REDIS_IMAGE ?= redlock/redis:local

# go test, or, when TEST_TIMES names a file, the same seen through a filter that
# notes there how long each test took. $(1) module folder, $(2) more flags.
ifdef TEST_TIMES
gotest = go -C $(1) test -json -race $(TESTFLAGS) $(2) ./... | go run ./.ci/testjson "$$TEST_TIMES"
else
gotest = go -C $(1) test -race $(TESTFLAGS) $(2) ./...
endif

# Compose v2 or docker-compose 1.29, whichever is there.
COMPOSE = $$(if docker compose version >/dev/null 2>&1; then echo docker compose; \
	elif command -v docker-compose >/dev/null; then echo docker-compose; \
	else echo "no compose: install the docker compose plugin or docker-compose" >&2; echo false; fi) -p redlock

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## the limited sale on five in-memory nodes, without and with the lock
	go run ./cmd/redlock demo

.PHONY: test
test: cc redis image-if-engine ## every module's tests with the race detector (installs redis-server if it can)
	@failed=; $(foreach m,$(MODULES),echo "== go -C $(m) test -race ./..."; $(call gotest,$(m),) || failed+=" $(m)";) \
	if [ -n "$$failed" ]; then echo "make test: failed in:$$failed" >&2; exit 1; fi

.PHONY: race
race: cc redis image-if-engine ## the same, several times and in random order (RACECOUNT=3)
	@failed=; $(foreach m,$(MODULES),echo "== go -C $(m) test -race -shuffle=on -count=$(RACECOUNT)"; $(call gotest,$(m),-shuffle=on -count=$(RACECOUNT)) || failed+=" $(m)";) \
	if [ -n "$$failed" ]; then echo "make race: failed in:$$failed" >&2; exit 1; fi

.PHONY: chaos
chaos: cc image ## the tests that break real servers in containers
	go -C chaos_test test -race -v $(TESTFLAGS) ./...

.PHONY: bench
bench: redis ## measure against the peers: one table in under five minutes
	go -C bench run .

.PHONY: bench-full
bench-full: redis ## the same at all numbers of nodes and with more pairs
	go -C bench run . -full

.PHONY: bench-long
bench-long: redis ## leases and waiters by the thousand, and faults while they wait: three minutes
	go -C bench run . -long

.PHONY: cover
cover: cc redis ## coverage of the root module
	go test -race $(TESTFLAGS) -coverprofile=coverage.out -coverpkg=./... ./...
	@go tool cover -func=coverage.out | tail -1

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (20s)
	@for pkg in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "== $$pkg $$target"; go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

.PHONY: lint
lint: fmt vet golangci ## gofmt, go vet and golangci-lint in every module

.PHONY: fmt
fmt: ## fail if gofmt would change a file
	@out=$$(gofmt -l -s .); if [ -n "$$out" ]; then echo "not formatted, run gofmt -s -w on:" >&2; echo "$$out" >&2; exit 1; fi

.PHONY: vet
vet: ## go vet in every module
	@failed=; $(foreach m,$(MODULES),echo "== go -C $(m) vet ./..."; go -C $(m) vet ./... || failed+=" $(m)";) \
	if [ -n "$$failed" ]; then echo "make vet: failed in:$$failed" >&2; exit 1; fi

.PHONY: golangci
golangci: $(GOLANGCI)
	@failed=; $(foreach m,$(MODULES),echo "== golangci-lint in $(m)"; (cd $(m) && $(GOLANGCI) run ./...) || failed+=" $(m)";) \
	if [ -n "$$failed" ]; then echo "make lint: golangci-lint failed in:$$failed" >&2; exit 1; fi

.PHONY: tools
tools: $(GOLANGCI) ## install golangci-lint into ./bin (about a minute)

$(GOLANGCI):
	GOBIN=$(CURDIR)/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv bin/golangci-lint $@

.PHONY: up
up: ## start five Redis masters on 127.0.0.1:7001-7005 in containers
	@compose="$(COMPOSE)"; $$compose up -d
	@for port in 7001 7002 7003 7004 7005; do \
		for try in $$(seq 100); do (exec 3<>/dev/tcp/127.0.0.1/$$port; printf 'PING\r\n' >&3; read -t 1 -r pong <&3; [[ $$pong == +PONG* ]]) 2>/dev/null && break; \
			[ $$try -lt 100 ] || { echo "make up: no Redis answers on 127.0.0.1:$$port: look at docker ps and its logs" >&2; exit 1; }; \
			sleep 0.1; done; echo "redis://127.0.0.1:$$port"; done

.PHONY: down
down: ## stop them and delete their data
	@compose="$(COMPOSE)"; $$compose down -v

.PHONY: image
image: ## build the Redis image from this host's packages, unless there is one
	@docker image inspect "$$REDLOCK_REDIS_IMAGE" >/dev/null 2>&1 || chaos_test/image.sh "$$REDLOCK_REDIS_IMAGE"

# The image, where a container engine answers and the host has what it takes; the
# chaos tests say themselves what is missing.
.PHONY: image-if-engine
image-if-engine: redis
	@if docker info >/dev/null 2>&1 && command -v busybox >/dev/null; then \
		$(MAKE) --no-print-directory image || echo "no Redis image: the chaos tests will say so" >&2; fi

# redis-server, which the tests start on loopback.
.PHONY: redis
redis:
	@command -v redis-server >/dev/null && exit 0; \
	if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		echo "no redis-server: installing it with apt-get"; \
		apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q redis-server redis-tools; \
	else \
		echo "no redis-server in PATH, and the tests start it." >&2; \
		echo "Debian, Ubuntu: sudo apt-get install redis-server redis-tools; macOS: brew install redis" >&2; exit 1; \
	fi

# The race detector needs a C compiler.
.PHONY: cc
cc:
	@command -v "$$(go env CC)" >/dev/null && exit 0; \
	if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		echo "no C compiler for the race detector: installing gcc with apt-get"; \
		apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q gcc libc6-dev; \
	else \
		echo "no C compiler, and go test -race needs one. Debian, Ubuntu: sudo apt-get install gcc libc6-dev" >&2; exit 1; \
	fi

.PHONY: sim
sim: ## the simulator on many seeds (SEEDS=10000 from FIRSTSEED=0), without the race detector
	go test -count=1 -run 'TestSimulation$$' -sim.seeds $(SEEDS) -sim.first $(FIRSTSEED) -timeout 0 -v .

.PHONY: mutants
mutants: ## every guard taken away in turn; fails for one that nobody misses
	go test -count=1 -run 'TestMutants|TestEveryMutantHasACase' -mutant.all -mutant.runs 5 -timeout 0 -v . | grep -v '^ *--- PASS\|^=== \|WARN'
