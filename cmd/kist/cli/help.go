package cli

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/kist-vcs/kist/docs"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Listed reports whether the help lists a command. For cobra, the help command itself is
// not available.
func Listed(cmd *cobra.Command) bool { return cmd.IsAvailableCommand() || cmd.Name() == "help" }

func Subcommand(cmd *cobra.Command, name string) *cobra.Command {
	for _, sub := range cmd.Commands() {
		if sub.Name() == name || sub.HasAlias(name) {
			return sub
		}
	}
	return nil
}

// WriteHelp writes the help of cmd for a terminal.
func WriteHelp(w io.Writer, env *Env, cmd *cobra.Command) {
	m := ManualOf(env, cmd)
	fmt.Fprintf(w, "%s - %s\n\nusage: %s\n", m.Name, m.Short, m.Usage)
	if len(m.Aliases) > 0 {
		fmt.Fprintf(w, "also:  %s\n", strings.Join(m.Aliases, ", "))
	}
	if m.Long != "" {
		fmt.Fprintf(w, "\n%s\n", m.Long)
	}
	for _, section := range m.Sections {
		writeItems(w, section)
	}
	for _, result := range m.Results {
		writeItems(w, result.Section())
	}
	fmt.Fprintf(w, "\nEXAMPLES\n%s\n", m.Example)
	writeItems(w, m.Exits)
	if m.Parent != "" {
		fmt.Fprint(w, "\n'kist help' lists the options that every command has.\n")
	}
}

// writeBriefHelp writes the usage and the options of cmd for a terminal: what a user of the
// command looks up most.
func writeBriefHelp(w io.Writer, env *Env, cmd *cobra.Command) {
	m := ManualOf(env, cmd)
	fmt.Fprintf(w, "usage: %s\n", m.Usage)
	for _, section := range m.Sections {
		writeItems(w, section)
	}
	fmt.Fprintf(w, "\n'%s --help' explains the command, with examples.\n", m.Name)
}

// briefHelp is the hidden option that -h stands for. Cobra knows only one option for help, and
// the help has to differ.
const briefHelp = "brief-help"

// addHelpFlags adds --help, and -h unless the command uses this letter otherwise.
func addHelpFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Bool("help", false, "show this help; -h only shows the options")
	if flags.ShorthandLookup("h") != nil {
		flags.Lookup("help").Usage = "show this help"
		return
	}
	flags.BoolFuncP(briefHelp, "h", "show the options", func(string) error { return flags.Set("help", "true") })
	flags.Lookup(briefHelp).Hidden = true
	_ = flags.SetAnnotation("help", briefHelp, nil) // it fails only without this option
}

// writeItems writes a section in two columns.
func writeItems(w io.Writer, section ManualSection) {
	fmt.Fprintf(w, "\n%s\n", section.Title)
	WriteTerms(w, section.Items)
}

// WriteTerms writes items in two columns.
func WriteTerms(w io.Writer, items []ManualItem) {
	width := 0
	for _, item := range items {
		width = max(width, len(item.Term))
	}
	width = min(width, 28)

	for _, item := range items {
		term := item.Term
		if len(term) > width {
			fmt.Fprintf(w, "  %s\n", term)
			term = ""
		}
		indent := strings.Repeat(" ", width+4)
		text := strings.ReplaceAll(Wrap(item.Text, 80-len(indent)), "\n", "\n"+indent)
		fmt.Fprintf(w, "  %-*s  %s\n", width, term, text)
	}
}

// Wrap breaks text at spaces into lines of at most width columns.
func Wrap(text string, width int) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case column+1+len(word) > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

// flagItem describes an option for the help and the manuals.
func flagItem(flag *pflag.Flag) ManualItem {
	placeholder, usage := pflag.UnquoteUsage(flag)
	term := "    --" + flag.Name
	if _, brief := flag.Annotations[briefHelp]; brief {
		term = "-h, --help"
	} else if flag.Shorthand != "" {
		term = "-" + flag.Shorthand + ", --" + flag.Name
	}
	if placeholder != "" {
		if flag.NoOptDefVal != "" {
			term += "[=" + placeholder + "]"
		} else {
			term += " " + placeholder
		}
	}
	if d := flag.DefValue; d != "" && d != "false" && d != "0" && d != "[]" && d != "0s" {
		usage += " (default " + d + ")"
	}
	return ManualItem{term, usage}
}

// Manual has the parts of a command's description, in the order of the help, of the
// page of the reference and of the manual page.
type Manual struct {
	Name     string // "kist commit"
	Short    string
	Usage    string
	Aliases  []string
	Long     string
	Sections []ManualSection // commands, options, global options; none is empty
	Results  []JSONResult
	Example  string // every line indented by two spaces
	Exits    ManualSection
	Parent   string
}

// ManualSection is a list with a title in capitals. With links, each term is a command with
// a page of its own.
type ManualSection struct {
	Title string
	Items []ManualItem
	Links bool
}

// ManualItem is a term and its meaning.
type ManualItem struct{ Term, Text string }

const topicsTitle = "TOPICS ('kist help TOPIC')"

// Parents names the pages above the one of a command: its parent, and kist, which alone lists
// the options that every command has.
func (m *Manual) Parents() []string {
	if m.Parent == "" {
		return nil
	}
	top, _, _ := strings.Cut(m.Parent, " ")
	return slices.Compact([]string{m.Parent, top})
}

func ManualOf(env *Env, cmd *cobra.Command) Manual {
	m := Manual{
		Name:    cmd.CommandPath(),
		Short:   cmd.Short,
		Usage:   cmd.UseLine(),
		Aliases: cmd.Aliases,
		Long:    strings.TrimSpace(cmd.Long),
		Results: env.ResultsOf(cmd),
		Example: strings.Trim(cmd.Example, "\n"),
		Exits:   ManualSection{Title: "EXIT STATUS"},
	}
	for _, status := range exitsOf(cmd) {
		m.Exits.Items = append(m.Exits.Items, ManualItem{strconv.Itoa(status), exitStatusOf(status).Meaning})
	}

	if cmd.HasParent() {
		m.Parent = cmd.Parent().CommandPath()
	}
	for _, group := range append(cmd.Groups(), &cobra.Group{Title: "COMMANDS"}) {
		m.addPage(ManualSection{group.Title, commandItems(cmd, group.ID), true})
	}
	if !cmd.HasParent() {
		m.addPage(ManualSection{Title: topicsTitle, Items: TopicItems()})
	}
	m.addPage(ManualSection{Title: "OPTIONS", Items: flagItems(cmd.LocalNonPersistentFlags())})
	m.addPage(ManualSection{Title: "GLOBAL OPTIONS", Items: flagItems(cmd.PersistentFlags())}) // only kist itself has any
	return m
}

func (m *Manual) addPage(section ManualSection) {
	if len(section.Items) > 0 {
		m.Sections = append(m.Sections, section)
	}
}

// commandItems lists the subcommands in a group; those in none have the ID "".
func commandItems(cmd *cobra.Command, group string) []ManualItem {
	var items []ManualItem
	for _, sub := range cmd.Commands() {
		if Listed(sub) && sub.GroupID == group {
			items = append(items, ManualItem{sub.Name(), sub.Short})
		}
	}
	return items
}

func flagItems(flags *pflag.FlagSet) []ManualItem {
	flags.SortFlags = false
	var items []ManualItem
	flags.VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			items = append(items, flagItem(flag))
		}
	})
	return items
}

// Topic is a page that 'kist help NAME' prints.
type Topic struct {
	Name string
	File string // below docs
	Page string
}

// Topics are the pages to which the help of commands refers. No command has such a name.
var Topics = []Topic{
	{"paths", "paths.md", docs.Paths},
	{"revisions", "revisions.md", docs.Revisions},
	{"ages", "ages.md", docs.Ages},
	{"environment", "environment.md", docs.Environment},
	{"s3", "howto/s3.md", docs.S3},
	{"thaw", "howto/thaw.md", docs.Thaw},
	{"publish", "howto/publish.md", docs.Publish},
	{"immutable", "howto/immutable.md", docs.Immutable},
	{"encrypt", "howto/encrypt.md", docs.Encrypt},
	{"sign", "howto/sign.md", docs.Sign},
}

// TopicOf returns the topic with a name.
func TopicOf(name string) (Topic, bool) {
	i := slices.IndexFunc(Topics, func(t Topic) bool { return t.Name == name })
	if i < 0 {
		return Topic{}, false
	}
	return Topics[i], true
}

// TopicItems lists the topics for the help.
func TopicItems() []ManualItem {
	var items []ManualItem
	for _, t := range Topics {
		items = append(items, ManualItem{t.Name, t.Title()})
	}
	return items
}

// Title returns the heading of a topic, without its capital.
func (t Topic) Title() string {
	line, _, _ := strings.Cut(strings.TrimPrefix(t.Page, "# "), "\n")
	return strings.ToLower(line[:1]) + line[1:]
}
