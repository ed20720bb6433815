package web_test

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/object/objecttest"
)

// browser is a tab of a browser that shows the pages of a site.
type browser struct {
	*site
	program context.Context // of the first tab, with which the program ends
	ctx     context.Context // of the tab

	mu       sync.Mutex
	problems []string // from the console: errors, exceptions, violations of the policy
}

// openBrowser starts Chromium.
func openBrowser(s *site) *browser {
	s.Helper()
	path := objecttest.NeedProgram(s, "chromium")
	home, err := os.MkdirTemp("", "chromium-home") // Chromium needs a writable home
	s.Check(err)
	s.Cleanup(func() { _ = os.RemoveAll(home) }) // processes of Chromium may still write there
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1200, 900),
		chromedp.Env("HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home, "TMPDIR="+home),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	allocated, stop := chromedp.NewExecAllocator(context.Background(), options...)
	s.Cleanup(stop)

	b := &browser{site: s, program: allocated}
	b.openTab()
	b.program = b.ctx
	return b
}

// openTab goes on in a new tab.
func (b *browser) openTab() {
	b.Helper()
	ctx, end := chromedp.NewContext(b.program)
	b.Cleanup(end)
	b.ctx = ctx
	b.Check(chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *page.EventJavascriptDialogOpening: // opened by a script of the repository
			b.problem("dialog: " + e.Message)
		case *runtime.EventExceptionThrown:
			b.problem(e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			b.problem(fmt.Sprint("console: ", e.Type))
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
				b.problem(fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
			}
		}
	}))
}

func (b *browser) problem(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, text)
}

// patience is the time after which an action counts as failed.
const patience = 3 * time.Minute

// errStuck is the error for a tab that answers no more. A page that is replaced at the wrong moment can cause that: chromedp then waits
// without a limit.
var errStuck = errors.New("the tab answers no more")

// do carries out actions.
func (b *browser) do(doing string, actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := b.try(patience, actions...); err != nil {
		b.Fatalf("%s: %v", doing, err)
	}
}

// open loads a page.
func (b *browser) open(path string) {
	b.Helper()
	b.retry(path, func() error { return b.try(patience, chromedp.Navigate(b.url+path), chromedp.WaitReady("#main")) })
}

// browse loads a page and follows links: of each pair, it clicks on the first element until the second is visible. A browser
// may lose a click on a page that still moves, so browse clicks again after a while.
func (b *browser) browse(path string, pairs ...string) {
	b.Helper()
	b.retry(path, func() error {
		err := b.try(patience, chromedp.Navigate(b.url+path))
		for pair := range slices.Chunk(pairs, 2) {
			if err == nil {
				err = b.follow(pair[0], pair[1])
			}
		}
		return err
	})
}

// follow clicks on one element until another is visible.
func (b *browser) follow(click, want string) error {
	visible := chromedp.WaitVisible(want)
	err := b.try(patience/9, chromedp.Click(click), visible)
	for n := 0; err != nil && !errors.Is(err, errStuck) && n < 4; n++ {
		if err = b.try(patience/9, visible); err != nil && !errors.Is(err, errStuck) {
			err = b.try(patience/9, chromedp.Click(click), visible)
		}
	}
	if err != nil {
		return fmt.Errorf("click on %s, and wait for %s: %w", click, want, err)
	}
	return nil
}

// retry does something that begins with the load of a page. It begins again in a new tab if the tab answers no more.
func (b *browser) retry(doing string, do func() error) {
	b.Helper()
	err := do()
	for n := 0; errors.Is(err, errStuck) && n < 2; n++ {
		b.Logf("%s: %v", doing, err)
		b.openTab()
		err = do()
	}
	if err != nil {
		b.Fatalf("%s: %v", doing, err)
	}
}

// try carries out actions within a time. The error is errStuck if they do not end then.
func (b *browser) try(within time.Duration, actions ...chromedp.Action[chromedp.Void]) error {
	ctx, cancel := context.WithTimeout(b.ctx, within)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- chromedp.Do(ctx, actions...) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(patience / 9):
		return errStuck
	}
}

// wait waits until an expression is true in the current page, or in the page that replaces it.
func (b *browser) wait(until, expression string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	for {
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if err == nil && is {
			return
		}
		select {
		case <-ctx.Done():
			at, _ := chromedp.Run(b.ctx, chromedp.Location())
			b.Fatalf("page %s: timeout while waiting until %s (last error: %v)", at, until, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// check fails the test if the console has problems.
func (b *browser) check(what string) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		b.Errorf("%s: %s", what, p)
	}
	b.problems = nil
}

// picture writes a PNG of one colour.
func picture(r *kisttest.Repository, path string, c color.Color) {
	r.Helper()
	img := image.NewRGBA(image.Rect(0, 0, 40, 30))
	for y := range 30 {
		for x := range 40 {
			img.Set(x, y, c)
		}
	}
	var b strings.Builder
	r.Check(png.Encode(&b, img))
	r.Write(path, b.String())
}

// shown is true if all pictures of a page are loaded.
const shown = `document.images.length > 0 && [...document.images].every(i => i.complete && i.naturalWidth > 0)`

// wav is a second of silence.
func wav() string {
	const n = 8000
	head := "RIFF\x64\x1f\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00data\x40\x1f\x00\x00"
	return head + strings.Repeat("\x80", n)
}

// TestBrowser uses the pages in a browser, with keys and clicks.
func TestBrowser(t *testing.T) {
	t.Parallel()
	r := harbour(t)
	picture(r, "quay.png", color.RGBA{200, 20, 20, 255})
	r.Write("horn.wav", wav())
	r.Write("plan.pdf", "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>endobj\ntrailer<</Root 1 0 R>>\n")
	commit(r, "a picture and a sound")
	picture(r, "quay.png", color.RGBA{20, 20, 200, 255})
	r.Write("src/main.go", strings.Replace(program, "hello", "ahoy", 1))
	r.Write("src/log.txt", strings.Repeat("a line of a log\n", 5000))
	r.Write("src/table.csv", "a,b,c,d,e,f,g,h\n"+strings.Repeat("1,two,three,four,five,six,seven,eight\n", 600))
	commit(r, "another colour")
	b := openBrowser(served(t, r, true))

	// The first Tab key focuses a link that skips the navigation. Each focus is visible.
	b.open("/")
	b.do("tab", chromedp.KeyEvent(kb.Tab))
	b.wait("the link to the content is visible", `document.activeElement.className === "skip" && document.activeElement.getBoundingClientRect().top >= 0`)
	for range 12 {
		b.do("tab", chromedp.KeyEvent(kb.Tab))
		b.wait("the focus is visible", `document.activeElement !== document.body && getComputedStyle(document.activeElement).outlineStyle !== "none"`)
	}

	// Browse: from the overview to a file, by keys.
	b.open("/")
	b.do("keys", chromedp.KeyEvent("j"))
	b.wait("the first commit has the focus", `document.activeElement.textContent === "another colour"`)
	b.do("keys", chromedp.KeyEvent("j"), chromedp.KeyEvent("k"), chromedp.KeyEvent(kb.Enter))
	b.wait("the commit is open", `location.pathname.startsWith("/commit/")`)
	b.wait("the pictures of the difference are shown", `document.querySelectorAll(".images img").length === 2 && `+shown)
	b.wait("the lines of the difference are shown", `[...document.querySelectorAll("ins")].some(l => l.textContent.includes("ahoy"))`)
	b.do("to the files", chromedp.Click(`//a[text()="Files"]`))
	b.wait("the thumbnail is shown", `document.querySelector(".thumb") && `+shown)
	b.do("to the folder", chromedp.Click(`//bdi[text()="src"]`), chromedp.WaitVisible(`//bdi[text()="main.go"]`), chromedp.Click(`//table//bdi[text()="main.go"]`))
	b.wait("the text is highlighted", `getComputedStyle(document.querySelector(".hl-keyword")).color !== getComputedStyle(document.body).color`)
	b.check("browse")

	// A line of a part that is not on the page.
	b.open("/blob/src/log.txt#L4500")
	b.wait("the line is there", `location.search === "?start=4480" && location.hash === "#L4500" && document.querySelector("#L4500:target")`)
	b.open("/blob/src/log.txt#L9999")
	b.wait("there is no such line", `location.search === "?start=9979" && document.body.textContent.includes("no more lines")`)
	b.open("/blob/src/table.csv#L600")
	b.wait("the line of the table's source is there", `location.search === "?as=source&start=580" && document.querySelector("#L600:target")`)
	b.check("lines")

	// Preview: a picture, and a sound that plays from its middle.
	b.open("/blob/quay.png")
	b.wait("the picture is shown", shown)
	b.open("/blob/horn.wav")
	b.wait("the sound can be played", `document.querySelector("audio").duration === 1`)
	b.do("seek", void(chromedp.Evaluate[float64](`document.querySelector("audio").currentTime = 0.5`)))
	b.wait("the sound is at its middle", `document.querySelector("audio").seeking === false && document.querySelector("audio").currentTime === 0.5`)
	b.open("/blob/plan.pdf")
	b.wait("the browser shows the PDF", `document.querySelector("iframe").offsetHeight > 100`)
	b.check("preview")

	// Search, from the field at the top of each page.
	b.open("/")                           // the PDF viewer catches keys
	b.do("a key", chromedp.KeyEvent("/")) // chromedp also types it into the field
	b.wait("the field has the focus", `document.activeElement.id === "quick"`)
	b.do("search", chromedp.SetValue("#quick", "quay"), chromedp.KeyEvent(kb.Enter))
	b.wait("the file is found", `document.querySelector(".found a")?.textContent === "quay.png"`)
	b.do("search contents", chromedp.Click(`input[value=contents]`), chromedp.SetValue("#q", "ahoy"), chromedp.Submit("#q"))
	b.wait("the line is found", `document.querySelector("mark")?.textContent === "ahoy"`)
	b.check("search")

	// History: the slider shows the first version.
	b.open("/history/quay.png")
	b.wait("there is a slider", `document.querySelector("#slider").offsetWidth > 0 && document.querySelector("#slider").value === "2"`)
	b.do("slide", chromedp.Focus("#slider"), chromedp.KeyEvent(kb.ArrowLeft))
	b.wait("the first version is shown", `document.querySelector("#version h2").textContent.startsWith("Version 1") && document.activeElement.id === "slider" && `+shown)
	b.check("history")

	// Restore the version that is shown.
	b.do("restore", chromedp.Click(".restore button"))
	b.wait("it was restored", `document.querySelector("h1").textContent === "Restored"`)
	file, err := os.Open(filepath.Join(r.Dir, "quay.png"))
	r.Check(err)
	defer file.Close()
	img, err := png.Decode(file)
	r.Check(err)
	if got := img.At(0, 0); got != (color.RGBA{200, 20, 20, 255}) {
		t.Errorf("the restored picture has the colour %v, want red", got)
	}
	b.check("restore")

	// The dashboard reloads until it has all numbers.
	b.open("/dashboard")
	b.wait("the numbers are there", `!document.querySelector("meta[http-equiv]") && document.querySelector(".plot") && document.querySelectorAll(".bar").length >= 5`)
	b.check("dashboard")
	b.forms()
}

// void drops the result of an action.
func void[T any](a chromedp.Action[T]) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := a(ctx, t)
		return chromedp.Void{}, err
	}
}

// call makes an action of a protocol command.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, command, params)
		return chromedp.Void{}, err
	}
}

// forms checks pages on a phone, in dark mode and without scripts.
func (b *browser) forms() {
	b.Helper()
	for _, path := range []string{"/", "/log", "/tree/", "/blob/src/main.go", "/commit/HEAD", "/history/quay.png", "/search?q=a", "/dashboard", "/diff?from=HEAD~1&to=HEAD", "/refs", "/blame/src/main.go", "/blob/README.md", "/blob/src/table.csv", "/blob/src/log.txt"} {
		b.do("a phone", chromedp.EmulateViewport(360, 740))
		b.open(path)
		b.wait(path+" fits on a phone", `document.documentElement.scrollWidth <= 360`)
	}
	b.do("a screen", chromedp.EmulateViewport(1200, 900))
	dark := func(value string) chromedp.Action[chromedp.Void] {
		return call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}}})
	}
	const luminance = `getComputedStyle(document.body).backgroundColor.match(/\d+/g).slice(0, 3).every(v => v `
	b.do("dark", dark("dark"))
	b.wait("the page is dark", luminance+`< 60)`)
	b.do("light", dark("light"))
	b.wait("the page is light", luminance+`> 200)`)
	b.check("forms")

	b.do("no scripts", call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	b.browse("/", `//a[text()="Files"]`, `//table//bdi[text()="src"]`, `//table//bdi[text()="src"]`, `//table//bdi[text()="main.go"]`, `//table//bdi[text()="main.go"]`, ".hl-keyword")
	b.browse("/history/quay.png", `a[rel=prev]`, `a[rel=next]`)
	b.browse("/blob/src/log.txt", `//a[text()="More"]`, "#L2001", `//a[text()="Before"]`, "#L1")
	b.browse("/blob/src/table.csv", `//a[text()="Source"]`, "#L1", `//a[text()="Table"]`, ".sheet")
	b.do("search without scripts", chromedp.Navigate(b.url+"/"), chromedp.SetValue("#quick", "quay"), chromedp.Click(".quick button"), chromedp.WaitVisible(".found a"),
		chromedp.Navigate(b.url+"/search"), chromedp.SetValue("#q", "quay"), chromedp.Submit("#q"), chromedp.WaitVisible(".found a"))
	b.do("scripts", call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{}))
	b.check("without scripts")
}

// No script of a hostile repository runs when its pages are open.
func TestBrowserHostile(t *testing.T) {
	t.Parallel()
	b := openBrowser(served(t, hostile(t), true))
	for _, path := range []string{
		"/", "/log", "/commit/HEAD", "/commit/HEAD~1", "/tree/names", "/tree/names?as=grid", "/blob/README", "/blob/evil.svg", "/blob/evil.html", "/blob/evil.xhtml", "/blob/evil.js", "/blob/evil.md", "/tree/evil", "/blob/names/evil.csv", "/blob/typed", "/blob/link",
		"/files/evil.html", "/files/evil.svg", "/files/evil.xhtml", "/files/evil.js", "/files/typed", "/log?rev=v1%3Cb%3E", "/search?q=%3Cscript%3E&in=contents", "/history/README", "/dashboard",
	} {
		if strings.HasPrefix(path, "/files/") {
			b.do(path, chromedp.Navigate(b.url+path))
		} else {
			b.open(path)
		}
		b.mu.Lock()
		for _, p := range b.problems {
			if !strings.Contains(p, "/files/evil.") { // there the policy blocks the script
				t.Errorf("%s: %s", path, p)
			}
		}
		b.problems = nil
		b.mu.Unlock()
	}
}
