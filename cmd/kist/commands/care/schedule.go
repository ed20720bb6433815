package care

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/schedule"
)

func NewSchedule(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schedule COMMAND",
		Short: "run a backup every day",
		Long: `Lets systemd, or cron where systemd does not run, start 'kist backup' once a
day. Set the options of the backup in the configuration: see 'kist help backup'.`,
		Example: `  kist schedule add --daily 02:30 --jitter 15m
  kist schedule list
  kist schedule remove`,
	}
	cmd.AddCommand(newScheduleAdd(env), newScheduleList(env), newScheduleRemove(env))
	return cmd
}

type scheduleOptions struct {
	daily  string
	jitter time.Duration
}

func newScheduleAdd(env *cli.Env) *cobra.Command {
	var o scheduleOptions
	cmd := &cobra.Command{
		Use:   "add --daily TIME [--jitter DURATION]",
		Short: "run a backup of this repository every day",
		Long: `Runs 'kist -q -C DIR backup' every day at TIME, as you. DIR is this repository.
An earlier schedule of this repository is replaced.

With --jitter, a backup begins up to DURATION later, at random, so that many
machines do not use one remote at the same moment. systemd chooses the delay
every day, and cron has the same one on all days.

systemd: the backup is a service with a timer, of the system if you are root. A
backup that was missed while the machine was off runs after the next boot. The
journal has its messages. Without root, it runs only while you are logged in,
except after 'loginctl enable-linger'.
cron: the backup is a line of your crontab. cron mails its warnings and errors.`,
		Example: `  kist schedule add --daily 02:30 --jitter 15m`,
		Args:    cli.Arguments(0, 0),
	}
	env.Prints(cmd, "", scheduleJSON{})
	env.InRepository(cmd, o.run)
	flags := cmd.Flags()
	flags.StringVar(&o.daily, "daily", "", "back up at `TIME`, such as 02:30, in local time")
	flags.DurationVar(&o.jitter, "jitter", 0, "begin up to `DURATION` later, such as 15m or 1h")
	return cmd
}

func newScheduleList(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "list your daily backups",
		Long: `Lists the daily backups of all repositories that you made with
'kist schedule add'.`,
		Example:           `  kist schedule list`,
		Args:              cli.Arguments(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runScheduleList(cmd.Context(), env) },
	}
	env.Prints(cmd, "for each repository", scheduleJSON{})
	return cmd
}

func newScheduleRemove(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remove [DIR]",
		Short: "end the daily backup of a repository",
		Long: `Ends the daily backup of this repository, or of DIR, which 'kist schedule list'
prints. The repository in DIR may be gone. A backup that is running goes on.`,
		Example: `  kist schedule remove
  kist schedule remove /srv`,
		Args:              cli.Arguments(0, 1),
		ValidArgsFunction: cli.Folders,
		RunE:              func(cmd *cobra.Command, args []string) error { return runScheduleRemove(cmd.Context(), env, args) },
	}
	cli.MayExit(cmd, cli.ExitNoRepository, cli.ExitDamaged, cli.ExitFormat)
	return cmd
}

// schedulers returns the schedulers of this machine, the best one first.
func schedulers(ctx context.Context, env *cli.Env) ([]schedule.Scheduler, error) {
	systemd := schedule.ForRoot()
	if os.Geteuid() != 0 {
		config, err := cli.ConfigHome(env)
		if err != nil {
			return nil, err
		}
		systemd = schedule.ForUser(config)
	}
	var all []schedule.Scheduler
	if systemd.Runs(ctx) {
		all = append(all, systemd)
	}
	if schedule.HasCron() {
		all = append(all, schedule.Cron{})
	}
	if len(all) == 0 {
		return nil, cli.Failf(cli.ExitFailed, "no-scheduler", "neither systemd nor cron is here")
	}
	return all, nil
}

func (o *scheduleOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, _ []string) error {
	if o.daily == "" {
		return cli.Usagef("--daily TIME is missing")
	}
	hour, minute, err := schedule.ParseDaily(o.daily)
	if err != nil {
		return cli.Usagef("--daily %s: %w", cli.QuoteArg(o.daily), err)
	}
	if o.jitter < 0 || o.jitter >= 24*time.Hour || o.jitter%time.Minute != 0 {
		return cli.Usagef("--jitter %s: want whole minutes, less than a day", o.jitter)
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	all, err := schedulers(ctx, env)
	if err != nil {
		return err
	}
	job := schedule.Job{Repo: cli.RealPath(r.Home()), Hour: hour, Minute: minute, Jitter: o.jitter, Program: program}
	if err := all[0].Add(ctx, job); err != nil {
		return err
	}
	for _, other := range all[1:] {
		if _, err := other.Remove(ctx, job.Repo); err != nil {
			return err
		}
	}
	printJob(env, job, all[0])
	if systemd, ok := all[0].(*schedule.Systemd); ok && !systemd.Lingers(env.Username()) {
		env.Warn("the backup runs only while you are logged in; 'loginctl enable-linger' changes that")
	}
	return nil
}

func runScheduleList(ctx context.Context, env *cli.Env) error {
	all, err := schedulers(ctx, env)
	if err != nil {
		return err
	}
	for _, s := range all {
		jobs, err := s.List(ctx)
		if err != nil {
			return err
		}
		for _, j := range jobs {
			printJob(env, j, s)
		}
	}
	return nil
}

func runScheduleRemove(ctx context.Context, env *cli.Env, args []string) error {
	var repo string
	if len(args) == 1 {
		repo = cli.RealPath(env.Path(args[0]))
	} else {
		r, err := env.Open()
		if err != nil {
			return err
		}
		repo = cli.RealPath(r.Home())
		r.Close()
	}
	all, err := schedulers(ctx, env)
	if err != nil {
		return err
	}
	found := false
	for _, s := range all {
		had, err := s.Remove(ctx, repo)
		if err != nil {
			return err
		}
		found = found || had
	}
	if !found {
		return cli.Failf(cli.ExitFailed, "no-schedule", "there is no schedule for %s", cli.QuotePath(repo))
	}
	env.PrintOutcome("removed the schedule of %s\n", cli.QuotePath(repo))
	return nil
}

// scheduleJSON is what schedule list prints with --json.
type scheduleJSON struct {
	Repository string `json:"repository" doc:"the folder of the repository"`
	Daily      string `json:"daily" doc:"the time of day"`
	Jitter     int    `json:"jitter_seconds" doc:"the most seconds of delay"`
	Scheduler  string `json:"scheduler" doc:"the program that runs it" values:"systemd|cron"`
	Unit       string `json:"unit,omitempty" doc:"the unit of systemd"`
}

// printJob prints a line for a job.
func printJob(env *cli.Env, j schedule.Job, by schedule.Scheduler) {
	unit := by.Unit(j.Repo)
	if env.Global.JSON {
		env.JSON(scheduleJSON{j.Repo, j.Daily(), int(j.Jitter / time.Second), by.Name(), unit})
		return
	}
	scheduler := by.Name()
	if unit != "" {
		scheduler += " as " + unit
	}
	delay := ""
	if j.Jitter > 0 {
		delay = " + up to " + strings.TrimSuffix(j.Jitter.String(), "0s")
	}
	env.Printf("daily at %s%s, by %s: %s\n", j.Daily(), delay, scheduler, cli.QuotePath(j.Repo))
}
