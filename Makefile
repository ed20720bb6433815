# kist: 'make' lists the targets.

GO          ?= go
BIN         := bin
REVISION    ?= $(shell git rev-parse HEAD 2>/dev/null)
LDFLAGS     := -s -w -X github.com/kist-vcs/kist/cmd/kist/cli.revision=$(REVISION)
STATICCHECK := v0.7.0

# The folders of 'make install'. DESTDIR is a folder to install into for a package.
PREFIX      ?= /usr/local
DESTDIR     ?=
BINDIR      ?= $(PREFIX)/bin
MANDIR      ?= $(PREFIX)/share/man
BASHDIR     ?= $(PREFIX)/share/bash-completion/completions
ZSHDIR      ?= $(PREFIX)/share/zsh/site-functions
FISHDIR     ?= $(PREFIX)/share/fish/vendor_completions.d

# Tests wait for processes and servers, so more tests than cores run in parallel.
PARALLEL    ?= -parallel 6

# Test binaries without DWARF are linked in half the time.
TESTLINK    ?= -ldflags=-w
TESTFLAGS   ?=
PKGS        ?= ./...
RACEPKGS    ?= $(shell GO=$(GO) ./testdata/concurrent.sh)
FUZZTIME    ?= 10s
SCALE       ?= 20
SEED        ?=
BENCH       ?= .
QUICK       ?=
BENCHFLAGS  ?=
MODEL       ?= .
OBJECTS     ?= 10000000

# Runs a command with the servers that tests need. 'make test SERVERS=' runs
# the tests without servers.
SERVERS     ?= $(BIN)/servers/run

# Runs a command with a temporary folder in memory. 'make test MEMORY=' uses the disk.
MEMORY      ?= ./testdata/inmemory.sh

.DEFAULT_GOAL := help
.PHONY: help build man install uninstall dist check-dist try look test soak race model memory readers servers vet lint fuzz fuzz-touched bench bench-go bench-compare docs cover clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/kist
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/kist ./cmd/kist

# Manual pages are made by a kist for this machine, also where build makes one for another.
man: # make the manual pages
	GOOS= GOARCH= CGO_ENABLED=0 $(GO) run -trimpath ./cmd/kist docs -q --man $(BIN)

install: build man ## install program, manual pages and completions (PREFIX=/usr/local, DESTDIR=)
	install -d '$(DESTDIR)$(BINDIR)' '$(DESTDIR)$(MANDIR)/man1' '$(DESTDIR)$(MANDIR)/man7' \
		'$(DESTDIR)$(BASHDIR)' '$(DESTDIR)$(ZSHDIR)' '$(DESTDIR)$(FISHDIR)'
	install -m 755 $(BIN)/kist '$(DESTDIR)$(BINDIR)/kist'
	install -m 644 $(BIN)/man/*.1 '$(DESTDIR)$(MANDIR)/man1'
	install -m 644 $(BIN)/man/*.7 '$(DESTDIR)$(MANDIR)/man7'
	install -m 644 cmd/kist/commands/about/shells/kist.bash '$(DESTDIR)$(BASHDIR)/kist'
	install -m 644 cmd/kist/commands/about/shells/kist.zsh '$(DESTDIR)$(ZSHDIR)/_kist'
	install -m 644 cmd/kist/commands/about/shells/kist.fish '$(DESTDIR)$(FISHDIR)/kist.fish'

uninstall: man ## remove the files of 'make install', with the same PREFIX and DESTDIR
	rm -f '$(DESTDIR)$(BINDIR)/kist' '$(DESTDIR)$(BASHDIR)/kist' '$(DESTDIR)$(ZSHDIR)/_kist' '$(DESTDIR)$(FISHDIR)/kist.fish'
	cd $(BIN)/man && for page in *; do rm -f '$(DESTDIR)$(MANDIR)/man'"$${page##*.}/$$page"; done

dist: ## build archives and packages of the release in bin/dist (PLATFORMS=linux/amd64)
	GO=$(GO) REVISION=$(REVISION) .ci/dist $(BIN)/dist $(PLATFORMS)

check-dist: ## build the release in two folders and compare (PLATFORMS=linux/amd64)
	GO=$(GO) .ci/check-dist $(PLATFORMS)

try: build ## show the main job on a real folder, in under a minute
	KIST=$(CURDIR)/$(BIN)/kist GO=$(GO) ./testdata/try.sh

look: build ## make try, then serve its repository to a browser (LISTEN=127.0.0.1:8460)
	KIST=$(CURDIR)/$(BIN)/kist GO=$(GO) KIST_TRY_SERVE=1 LISTEN=$(LISTEN) ./testdata/try.sh

test: $(SERVERS) ## run the tests (TESTFLAGS=-v, PKGS=./object/...)
	$(MEMORY) $(SERVERS) $(GO) test $(TESTLINK) $(PARALLEL) $(TESTFLAGS) $(PKGS)
	$(if $(filter ./...,$(PKGS)),KIST_TEST_MONGODB=none $(MEMORY) $(SERVERS) $(GO) -C cmd/kistbench test $(TESTFLAGS) ./...)

soak: $(SERVERS) ## run many rounds of the tests with random input (SCALE=20, SEED=7, PKGS=./object/volume)
	GO=$(GO) SCALE=$(SCALE) SEED=$(SEED) TESTFLAGS='$(TESTLINK) $(PARALLEL) $(TESTFLAGS)' $(SERVERS) ./testdata/soak.sh $(PKGS)

race: $(SERVERS) ## run the tests of packages with goroutines under the race detector (RACEPKGS=./refs)
	$(SERVERS) $(GO) test -race $(TESTLINK) $(PARALLEL) $(TESTFLAGS) $(RACEPKGS)

model: ## explore the model of the remote protocol in full (MODEL=TestMutation/RELY_ON_ALL_LIVE)
	$(GO) test -count=1 -v -timeout 2h -run '$(MODEL)' ./remote/rootlog/model -model.full

memory: ## bound the memory of commands on a remote of OBJECTS objects (OBJECTS=100000000)
	$(GO) test -count=1 -v -timeout 2h -run TestMemoryOfManyObjects ./cmd/kist -kist.objects=$(OBJECTS)

readers: ## read the test vectors with programs that are not kist (needs node)
	node testdata/readers/encryptedblob.mjs testdata/vectors/encryptedblob.json

servers: $(BIN)/servers/run ## start MinIO and FerretDB, print their addresses, wait for ^C
	$<

$(BIN)/servers/run: $(wildcard testdata/servers/*.go) testdata/servers/go.mod
	$(GO) -C testdata/servers build -o $(CURDIR)/$@ .

vet: ## run go vet
	$(GO) vet $(PKGS)

# The version is in the name, so that another version is built.
$(BIN)/staticcheck-$(STATICCHECK):
	GOBIN=$(CURDIR)/$(BIN)/tools $(GO) install honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK)
	mv $(BIN)/tools/staticcheck $@

lint: vet $(BIN)/staticcheck-$(STATICCHECK) ## check formatting, go vet and staticcheck
	@files=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$files" ]; then echo "gofmt would change:"; echo "$$files"; exit 1; fi
	$(GO) -C testdata/servers vet ./...
	$(GO) -C cmd/kistbench vet ./...
	$(BIN)/staticcheck-$(STATICCHECK) $(PKGS)
	cd cmd/kistbench && $(CURDIR)/$(BIN)/staticcheck-$(STATICCHECK) ./...

fuzz-touched: ## run the fuzz targets of packages that differ from origin/main (BASE=HEAD~3), a minute in all
	@packages=$$(GO=$(GO) ./testdata/touched.sh); if [ -z "$$packages" ]; then echo 'no package was touched'; exit; fi; \
		GO=$(GO) FUZZTIME=1s FUZZLIMIT=60 FUZZ=$(FUZZ) ./testdata/fuzz.sh $$packages

fuzz: ## run every fuzz target for FUZZTIME (10s) (FUZZ=FuzzTree, PKGS=./object/...)
	GO=$(GO) FUZZTIME=$(FUZZTIME) FUZZ=$(FUZZ) ./testdata/fuzz.sh $(PKGS)

# An installed copy starts faster than the file that the linker has just written: Linux holds that one in single pages.
bench: build $(SERVERS) ## measure kist beside restic, kopia, borg, git and git-annex (QUICK=1, BENCHFLAGS='-sets media')
	$(GO) -C cmd/kistbench build -o $(CURDIR)/$(BIN)/kistbench .
	install -m 755 $(BIN)/kist $(BIN)/kist-installed
	KIST_TEST_MONGODB=none $(SERVERS) $(BIN)/kistbench -kist $(BIN)/kist-installed $(if $(QUICK),-quick) -json $(BIN)/bench.json $(BENCHFLAGS)

bench-go: ## run the Go benchmarks (BENCH=Put, PKGS=./object/volume)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem $(PKGS)

bench-compare: ## compare the Go benchmarks with the commit REF (REF=main, BENCH=Put, PKGS=./object/volume)
	GO=$(GO) BENCH='$(BENCH)' ./testdata/bench-compare.sh '$(REF)' $(PKGS)

docs: ## regenerate docs/reference from the commands
	$(GO) run ./cmd/kist docs docs

cover: $(SERVERS) ## print the test coverage of all packages
	@mkdir -p $(BIN)
	$(SERVERS) $(GO) test -cover -coverpkg=./... -coverprofile=$(BIN)/cover.out $(PKGS) >/dev/null
	$(GO) tool cover -func=$(BIN)/cover.out | tail -1

clean: ## remove build results
	rm -rf $(BIN)
