# Stout needs Go, make and git. `make` lists the targets.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

# The stores' metrics reach our registry only under this tag (go-metrics/compat).
TAGS    := hashicorpmetrics
LDFLAGS := -X github.com/stoutlock/stout/internal/buildinfo.version=$(VERSION)
FUZZTIME ?= 20s

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: ## Run a cell of three replicas on this machine; SECURE=1 with TLS and access, ARGS="--port 9001 --data DIR"
	@CGO_ENABLED=0 $(GO) build -tags $(TAGS) -ldflags '$(LDFLAGS)' -o bin/ ./cmd/stout ./test/devcell
	@exec bin/devcell run $(if $(SECURE),--secure) $(ARGS)

.PHONY: demo
demo: ## Show a lock survive the death of the master, in 15 seconds
	@$(GO) build -tags $(TAGS) -o bin/devcell ./test/devcell
	@exec bin/devcell demo

.PHONY: bench
bench: ## Put load on a cell of three replicas; ARGS="cycle --n 1,64 --via sdk,http"
	@$(GO) build -tags $(TAGS) -o bin/bench ./test/bench
	@exec bin/bench $(ARGS)

.PHONY: peers
peers: ## Compare Stout with etcd and ZooKeeper: ARGS="--etcd PATH --zookeeper DIR" (test/peers/doc.go has how to get them)
	@$(GO) build -C test/peers -o ../../bin/peers .
	@exec bin/peers $(ARGS)

.PHONY: bench-check
bench-check: ## Compare the speed with a commit's, in turn: BASE=HEAD~1, ROUNDS=5, ARGS="put --n 64" for one row
	@GO='$(GO)' .ci/bench-check '$(BASE)' $(ARGS)

.PHONY: chaos
chaos: ## Inject faults into real cells and check what clients saw; ARGS="--duration 1h --size 5 --seed 7"
	@$(GO) build -tags $(TAGS) -o bin/chaos ./test/chaos
	@exec bin/chaos $(ARGS)

.PHONY: sim
sim: ## Run simulated cells from seeds; SEEDS=10000 for more, SEED=7 STEPS=300 for one
	@$(GO) build -tags $(TAGS) -o bin/sim ./test/sim
	@exec bin/sim $(if $(SEED),--seed $(SEED) --seeds $(or $(SEEDS),1),--seeds $(or $(SEEDS),100)) $(if $(STEPS),--steps $(STEPS)) $(ARGS)

.PHONY: mutants
mutants: ## Compile deliberate faults in, and see which the simulator finds; ARGS="--only no-wait"
	@$(GO) build -tags $(TAGS) -o bin/sim ./test/sim
	@exec bin/sim --mutants --seeds $(or $(SEEDS),400) $(if $(SEED),--seed $(SEED)) $(ARGS)

.PHONY: crash
crash: ## Cut the power of a replica's stores, at any write; ARGS="--duration 1h --seed 7"
	@$(GO) build -tags $(TAGS) -o bin/crash ./test/crash
	@exec bin/crash $(ARGS)

.PHONY: build
build: ## Build bin/stoutd, bin/stout and bin/stoutlab, static binaries
	CGO_ENABLED=0 $(GO) build -tags $(TAGS) -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/stoutd ./cmd/stout
	CGO_ENABLED=0 $(GO) build -C cmd/stoutlab -trimpath -ldflags '-X main.version=$(VERSION)' -o ../../bin/ .

# The release tool is a module of its own, so that its dependencies do not affect the
# versions in the programs. The same commit gives the same bytes.
RELEASE = $(GO) build -C internal/release -o ../../bin/release . && bin/release --root .

.PHONY: release
release: ## Make archives, packages, the image and their checksums in dist/release; ARGS="--targets linux/amd64"
	@$(RELEASE) --out dist/release $(ARGS)

.PHONY: image
image: ## Make the container image for Linux in dist/image, in the OCI layout
	@$(RELEASE) --image --out dist/image $(ARGS)

# Package internal/testrun and STOUT_TEST decide which tests a run includes. Each run
# draws new samples, so results are not cached (-count=1). Lint already ran go vet,
# and these binaries need no debug information.
TEST := -tags $(TAGS) -vet=off -ldflags='-s -w' -count=1
GOTEST := GO='$(GO)' .ci/gotest

.PHONY: test
test: ## Run all tests that are pure or in memory, one test of real processes, and 20 simulated cells
	@CGO_ENABLED=0 $(GOTEST) $(TEST) -timeout 10m $$(.ci/packages quick)

.PHONY: race
race: ## Run the tests of code with goroutines under the race detector; needs a C compiler
	@.ci/needs 'cc|gcc|clang=all of it'
	@CGO_ENABLED=1 GORACE=atexit_sleep_ms=20 $(GOTEST) -race $(TEST) -timeout 20m $$(.ci/packages race)

.PHONY: e2e
e2e: ## Run the tests of real processes, the page, the shown commands, monitoring and the release
	@.ci/needs 'chromium|chromium-headless-shell|chromium-browser|google-chrome=the pages (.ci/chromium installs it)' \
		'node=modules of the page, the client for Node' 'npm=generated clients, the client for Node' 'python3=the client for Python' 'bash=completion' 'dpkg=packages' 'systemd-analyze=units' 'ip=dead links, DNS that hangs' 'iptables=dead links, DNS that hangs' 'root=installation of packages' \
		'/usr/sbin/nginx|nginx=load balancers' '/usr/sbin/haproxy|haproxy=load balancers' 'mypy=types of the client for Python'
	@$(MAKE) --no-print-directory -j 2 e2e-cells e2e-modules

.PHONY: e2e-cells e2e-modules
e2e-cells:
	@CGO_ENABLED=0 $(GO) test -tags $(TAGS),faultpoints -count=1 ./internal/faultpoint
	@CGO_ENABLED=0 STOUT_TEST=e2e $(GOTEST) $(TEST) -timeout 20m $$(.ci/packages e2e)
e2e-modules:
	cd internal/release && STOUT_TEST=e2e $(GO) test -vet=off -count=1 ./...
	cd internal/monitoring && STOUT_TEST=e2e $(GO) test -vet=off -ldflags='-s -w' -count=1 -timeout 20m ./...
	cd test/peers && STOUT_TEST=e2e $(GO) test -vet=off -count=1 ./...
	cd client/contrib && $(GO) test -count=1 ./...

.PHONY: generators
generators: ## Make clients from openapi.yaml with three generators, and use a cell with them; e2e has one of them
	@.ci/needs 'npm=clients in TypeScript'
	@CGO_ENABLED=0 STOUT_TEST=nightly $(GO) test $(TEST) -timeout 20m ./test/generators

# The lab is a module of its own: the programs build without it.
.PHONY: lab
lab: ## Run the tests of the lab, cmd/stoutlab
	cd cmd/stoutlab && STOUT_TEST=e2e $(GO) test -vet=off -count=1 ./...

.PHONY: contrib
contrib: ## Run the tests of the adapters for other libraries, and of fence in databases
	@.ci/needs 'postgres=fence.SQL in PostgreSQL' 'mariadbd|/usr/sbin/mariadbd=fence.SQL in MariaDB'
	cd client/contrib && $(GO) vet ./... && STOUT_TEST=e2e $(GO) test -vet=off -count=1 ./...

.PHONY: consul
consul: ## Use programs of others at the door for Consul's clients; nightly has it too. ARGS="-run TestPatroni"
	@.ci/needs 'patroni=the fail-over of PostgreSQL' 'psql=the fail-over of PostgreSQL'
	@CGO_ENABLED=0 STOUT_TEST=nightly $(GO) test $(TEST) -v -timeout 60m ./test/consul $(ARGS)

.PHONY: nightly
nightly: ## Run every test in full under the race detector, and fuzz for hours
	@.ci/needs 'cc|gcc|clang=all of it'
	@CGO_ENABLED=1 STOUT_TEST=nightly $(GOTEST) -race $(TEST) -timeout 90m ./...
	cd internal/release && STOUT_TEST=nightly $(GO) test -vet=off -count=1 -timeout 60m ./...
	cd internal/monitoring && STOUT_TEST=nightly $(GO) test -vet=off -ldflags='-s -w' -count=1 -timeout 20m ./...
	cd cmd/stoutlab && STOUT_TEST=nightly $(GO) test -race -vet=off -count=1 -timeout 60m ./...
	cd client/contrib && STOUT_TEST=nightly $(GO) test -race -vet=off -count=1 -timeout 60m ./...
	$(MAKE) cross-vet fuzz fuzz-long

# The first commit whose successors have checked subjects.
SUBJECTS := 0e12350d2

.PHONY: lint
lint: ## Check the format and the prose, and run go vet and staticcheck
	@unformatted=$$($$($(GO) env GOROOT)/bin/gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go')) || exit 1; \
	if [ -n "$$unformatted" ]; then echo "not gofmt'ed:"; echo "$$unformatted"; exit 1; fi
	@$(GO) run ./internal/docs/prose --summary .
	@$(GO) run ./internal/docs/prose --commits $(SUBJECTS)
	$(GO) vet -tags $(TAGS) ./...
	$(GO) tool staticcheck -tags $(TAGS) ./...
	@staticcheck=$$($(GO) tool -n staticcheck); for module in internal/release internal/monitoring cmd/stoutlab test/peers; do \
		echo "$$module"; (cd "$$module" && $(GO) vet ./... && "$$staticcheck" ./...) || exit 1; \
	done

# The other supported systems. stoutd needs a system that syncs disks and locks files
# as Unix does.
CROSS := darwin/arm64:./cmd/... darwin/amd64:./cmd/... linux/arm64:./cmd/... windows/amd64:./cmd/stout/...,./client/...

.PHONY: cross
cross: ## Check that the programs compile for the other supported systems
	@$(GO) run ./internal/cross $(CROSS)
	@for system in darwin windows; do echo "$$system: cmd/stoutlab"; GOOS=$$system CGO_ENABLED=0 $(GO) vet -C cmd/stoutlab ./... || exit 1; done

.PHONY: cross-vet
cross-vet: ## Like cross, but with go vet, which compiles everything: nightly
	@for target in $(CROSS); do \
		platform=$${target%%:*}; echo "$$platform $${target#*:}"; \
		GOOS=$${platform%/*} GOARCH=$${platform#*/} CGO_ENABLED=0 $(GO) vet -tags $(TAGS) $$(echo $${target#*:} | tr , " ") || exit 1; \
	done

# Go's build cache keeps inputs that add coverage, the package's testdata/fuzz a
# failing one.
.PHONY: fuzz
fuzz: ## Run each fuzz test for FUZZTIME (20s)
	@GO='$(GO)' TAGS='$(TAGS)' .ci/fuzz $(FUZZTIME)

# The parsers of data from the network, apart from net/http and the contract.
LONG ?= lockapi/server client/internal/wire internal/browser
LONGTIME ?= 10m

.PHONY: fuzz-long
fuzz-long: ## Run the fuzz tests of data from the network for LONGTIME each (10m): nightly
	@GO='$(GO)' TAGS='$(TAGS)' .ci/fuzz $(LONGTIME) $(LONG)

.PHONY: clean
clean: ## Remove build results (not the data in ./.stout)
	rm -rf bin dist
