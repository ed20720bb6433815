package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// webServer is a repository that can serve its versions over HTTP.
type webServer interface {
	// serve calls work while a server runs. Work gets the URL of the folder of the last version.
	serve(ctx context.Context, work func(folder string) (Sample, error)) (Sample, error)
}

// The number of requests that are measured, and of clients that send them at the same time.
const (
	requestCount = 1000
	clientCount  = 50
)

// request measures the requests of one small file. The floor is Go's file server.
func (e *event) request(ctx context.Context) error {
	name, content, err := smallFileBelow(e.path)
	if err != nil {
		return err
	}
	load := func(folder string) (Sample, error) { return measureRequests(ctx, folder+name, content) }
	err = e.each(ctx, workRequest, 0, func(c *contestant) (Sample, error) {
		w, ok := c.repository.(webServer)
		if !ok {
			return Sample{}, errors.ErrUnsupported
		}
		return w.serve(ctx, load)
	})
	if err != nil {
		return err
	}

	server := httptest.NewServer(http.FileServer(http.Dir(e.path)))
	defer server.Close()
	floor, err := load(server.URL + "/")
	if err != nil {
		return err
	}
	floor.Round = e.round
	e.report.add(e.set, workRequest, floorTool, floor)
	return nil
}

// smallFileBelow returns the path in a URL and the content of the first file of a folder that
// has at most smallFile bytes.
func smallFileBelow(dir string) (name string, content []byte, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if info, err := d.Info(); err != nil || info.Size() > smallFile {
			return err
		}
		if name, err = filepath.Rel(dir, path); err == nil {
			content, err = os.ReadFile(path)
		}
		if err != nil {
			return err
		}
		return fs.SkipAll
	})
	if err == nil && name == "" {
		err = fmt.Errorf("%s has no file of at most %d bytes", dir, smallFile)
	}
	return (&url.URL{Path: filepath.ToSlash(name)}).EscapedPath(), content, err
}

// measureRequests requests a file from several clients at once. The seconds of the sample are
// the time within which 99 % of the answers arrive. It returns an error for an answer that is
// not the content.
func measureRequests(ctx context.Context, file string, content []byte) (Sample, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: clientCount}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	took := make([]time.Duration, requestCount)
	errs := make([]error, clientCount)
	var clients sync.WaitGroup
	for c := range clientCount {
		clients.Go(func() {
			for i := c; i < requestCount && errs[c] == nil; i += clientCount {
				began := time.Now()
				errs[c] = requestFile(ctx, client, file, content)
				took[i] = time.Since(began)
			}
		})
	}
	clients.Wait()
	slices.Sort(took)
	return Sample{Seconds: took[requestCount*99/100-1].Seconds()}, errors.Join(errs...)
}

func requestFile(ctx context.Context, client *http.Client, file string, content []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, file, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err == nil && (answer.StatusCode != http.StatusOK || !bytes.Equal(got, content)) {
		err = fmt.Errorf("%s: %s, and not the content of the file", file, answer.Status)
	}
	return err
}

func (k kistRepository) serve(ctx context.Context, work func(folder string) (Sample, error)) (Sample, error) {
	return k.inside(func() (s Sample, err error) {
		var stderr tail
		cmd := k.runner.prepare(ctx, k.command("serve", "--json", "--listen", "127.0.0.1:0"))
		cmd.Stderr = &stderr
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return s, err
		}
		defer func() { err = errors.Join(err, cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()) }()

		var served struct{ URL string }
		if err := json.NewDecoder(out).Decode(&served); err != nil {
			return s, fmt.Errorf("kist serve printed no URL: %w: %s", err, stderr.String())
		}
		return work(served.URL + "files/")
	})
}
