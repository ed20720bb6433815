// Kistbench measures kist beside the programs that people use for the same
// work: restic, kopia, borg and git, as far as they are on PATH.
//
//	kistbench -kist bin/kist -quick
//
// It makes its data sets in a temporary folder, has each program do the same
// work on the same data in turn, several rounds of it, and prints medians as
// tables of Markdown; -json writes all that was measured, and -doc replaces the
// tables and plots of a page. docs/performance.md tells what is measured, and
// how.
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

// options are what the command line says.
type options struct {
	tools    map[string]string // program by name; empty: do without
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

// run measures what args say, or takes a report that was written earlier, and
// puts the results where they are wanted.
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
		flags.Func(name, fmt.Sprintf("the `program` to run as %s; empty: none (default %[1]s, if it is on PATH)", name), func(s string) error {
			opts.tools[name] = s
			return nil
		})
	}
	var sets string
	flags.StringVar(&opts.dir, "dir", "", "work in a new folder in `DIR`, which is removed at the end (default: where temporary files go)")
	flags.StringVar(&sets, "sets", strings.Join(allSets, ","), "what to measure, of "+strings.Join(allSets, ", "))
	flags.IntVar(&opts.rounds, "rounds", 3, "repeat everything `N` times, if there is time")
	flags.DurationVar(&opts.limit, "limit", 0, "begin no round, after the first, that would not end within `DURATION` (default none, -quick 4m30s)")
	flags.BoolVar(&opts.quick, "quick", false, "smaller data sets, some minutes in all")
	flags.IntVar(&opts.wide, "wide", 0, "have `N` files in the one folder of the set wide (default 100000, -quick 10000)")
	flags.IntVar(&opts.files, "files", 0, "measure kist with up to `N` files, 1000000 at most (default 200000, -quick 20000)")
	flags.IntVar(&opts.commits, "commits", 0, "measure kist over `N` commits (default 1000, -quick 100)")
	flags.IntVar(&opts.large, "large", 0, "measure kist with one file of `N` GiB, too")
	flags.StringVar(&opts.releases, "releases", defaultReleases, "the `MODULE@VERSION,VERSION...` of the set versions")
	flags.StringVar(&opts.json, "json", "", "write all that was measured to `FILE`")
	flags.StringVar(&opts.doc, "doc", "", "replace the tables in `FILE`, and the plots in the folder called like it")
	flags.StringVar(&opts.from, "from", "", "measure nothing, but take what -json wrote to `FILE`")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("%q: only options are known", flags.Arg(0))
	}
	opts.sets = strings.Split(sets, ",")
	for _, set := range opts.sets {
		if !slices.Contains(allSets, set) {
			return nil, fmt.Errorf("no set is called %q, of %s", set, strings.Join(allSets, ", "))
		}
	}
	if opts.rounds < 1 {
		return nil, fmt.Errorf("%d rounds: at least one is needed", opts.rounds)
	}
	if opts.quick && opts.limit == 0 {
		opts.limit = 270 * time.Second
	}
	opts.wide = or(opts.wide, opts.scale(100_000, 10_000))
	opts.files = or(opts.files, opts.scale(200_000, 20_000))
	opts.commits = or(opts.commits, opts.scale(1000, 100))
	return opts, nil
}

// scale returns how large something is in an ordinary run, or a quick one.
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
