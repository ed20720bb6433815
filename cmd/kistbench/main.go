// Kistbench measures kist beside the programs that people use for the same
// work: restic, kopia, borg, git and git-annex, if they are on PATH.
//
//	kistbench -kist bin/kist -quick
//
// It makes data sets in a temporary folder. In several rounds, each program does the same work
// on the same data. Kistbench prints the medians as tables in Markdown. With -json it writes all
// results to a file. With -doc it replaces the tables and plots of a page. docs/performance.md
// describes the method.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the options of the command line.
type options struct {
	tools    map[string]string // program by name; empty: none
	dir      string
	sets     []string
	rounds   int
	quick    bool
	wide     int
	files    int
	commits  int
	large    int
	releases string
	limit    time.Duration // 0: none
	json     string
	doc      string
	from     string
}

func main() {
	if os.Getenv(starterVariable) != "" {
		os.Exit(starter(os.Args[1:]))
	}
	if delay := os.Getenv(delayVariable); delay != "" {
		os.Exit(delayed(delay, os.Args[1:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintf(os.Stderr, "kistbench: %v\n", err)
		os.Exit(1)
	}
}

// run makes a report, or reads one that -json wrote. It puts the results where args ask for them.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	opts, err := parse(args, stderr)
	if err != nil {
		return err
	}
	var report *Report
	if opts.from != "" {
		report, err = readReport(opts.from)
	} else {
		report, err = measureAll(ctx, opts, stderr)
	}
	if report != nil && opts.json != "" {
		err = errors.Join(err, report.write(opts.json))
	}
	if err != nil {
		return err
	}
	if opts.doc != "" {
		if err := updateDocument(opts.doc, report); err != nil {
			return err
		}
	}
	if opts.from == "" || opts.json == "" && opts.doc == "" {
		_, err = io.WriteString(stdout, allTables(report))
	}
	return err
}

func parse(args []string, stderr io.Writer) (*options, error) {
	opts := &options{tools: map[string]string{}}
	flags := flag.NewFlagSet("kistbench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	for _, name := range toolNames {
		flags.Func(name, fmt.Sprintf("run `PROGRAM` as %s; empty: none (default %[1]s, if it is on PATH)", name), func(s string) error {
			opts.tools[name] = s
			return nil
		})
	}
	var sets string
	flags.StringVar(&opts.dir, "dir", "", "work in a new folder in `DIR`, and remove it at the end (default: the folder for temporary files)")
	flags.StringVar(&sets, "sets", strings.Join(allSets, ","), "measure the `SETS`, some of "+strings.Join(allSets, ","))
	flags.IntVar(&opts.rounds, "rounds", 3, "make `N` rounds, if there is time")
	flags.DurationVar(&opts.limit, "limit", 0, "after the first round, begin none that would end after `DURATION` (default none, -quick 4m30s)")
	flags.BoolVar(&opts.quick, "quick", false, "use smaller data sets: some minutes in all")
	flags.IntVar(&opts.wide, "wide", 0, "put `N` files into the one folder of the set wide (default 100000, -quick 10000)")
	flags.IntVar(&opts.files, "files", 0, "measure kist with up to `N` files, at most 1000000 (default 200000, -quick 20000)")
	flags.IntVar(&opts.commits, "commits", 0, "measure kist with up to `N` commits (default 1000, -quick 100)")
	flags.IntVar(&opts.large, "large", 0, "also measure kist with one file of `N` GiB")
	flags.StringVar(&opts.releases, "releases", defaultReleases, "use `MODULE@VERSION,VERSION...` for the set versions")
	flags.StringVar(&opts.json, "json", "", "write all results to `FILE`")
	flags.StringVar(&opts.doc, "doc", "", "replace the tables in the page `FILE`, and the plots in the folder of that name")
	flags.StringVar(&opts.from, "from", "", "measure nothing; read the results that -json wrote to `FILE`")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	opts.sets = strings.Split(sets, ",")
	for _, set := range opts.sets {
		if !slices.Contains(allSets, set) {
			return nil, fmt.Errorf("unknown set %q; the sets are %s", set, strings.Join(allSets, ", "))
		}
	}
	if opts.rounds < 1 {
		return nil, fmt.Errorf("-rounds %d: at least 1", opts.rounds)
	}
	if opts.quick && opts.limit == 0 {
		opts.limit = 270 * time.Second
	}
	opts.wide = or(opts.wide, opts.scale(100_000, 10_000))
	opts.files = or(opts.files, opts.scale(200_000, 20_000))
	opts.commits = or(opts.commits, opts.scale(1000, 100))
	return opts, nil
}

// scale returns the size for an ordinary or a quick run.
func (o *options) scale(ordinary, quick int) int {
	if o.quick {
		return quick
	}
	return ordinary
}

func or(n, otherwise int) int {
	if n > 0 {
		return n
	}
	return otherwise
}
