package keyset

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/kist-vcs/kist/chunker"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/crypt"
)

// payload is the content of an envelope. Only one text is the encoding of a keyset.
type payload struct {
	Remote     string             `json:"remote"`
	Serial     uint64             `json:"serial"`
	Repository string             `json:"repository"`
	Chunker    payloadChunker     `json:"chunker"`
	Epochs     []payloadEpoch     `json:"epochs"`
	Recipients []payloadRecipient `json:"recipients"`
	Removed    []payloadRemoved   `json:"removed"`
}

// payloadChunker has the form that kist.json has in a clear remote.
type payloadChunker struct {
	Polynomial string `json:"polynomial"`
	Min        int    `json:"min"`
	Average    int    `json:"average"`
	Max        int    `json:"max"`
}

type payloadEpoch struct {
	Number uint32 `json:"number"`
	Key    []byte `json:"key"` // base64
	Root   uint64 `json:"root"`
}

type payloadRecipient struct {
	Name      string `json:"name"`
	Recipient string `json:"recipient"`
	Date      string `json:"date"`
	Locked    string `json:"locked,omitempty"` // SHA-256 of the locked identity
}

type payloadRemoved struct {
	Name  string `json:"name"`
	Date  string `json:"date"`
	Epoch uint32 `json:"epoch"`
}

// encode returns the line of JSON. The caller clears it after use.
func (k *Keyset) encode() ([]byte, error) {
	p := payload{
		Remote: hex.EncodeToString(k.Remote[:]), Serial: k.Serial, Repository: hex.EncodeToString(k.Repository[:]),
		Chunker: payloadChunker{
			Polynomial: "0x" + strconv.FormatUint(k.Chunker.Polynomial, 16),
			Min:        k.Chunker.Min, Average: k.Chunker.Avg, Max: k.Chunker.Max,
		},
		Epochs: []payloadEpoch{}, Recipients: []payloadRecipient{}, Removed: []payloadRemoved{},
	}
	defer p.clear()
	for i, e := range k.Epochs {
		p.Epochs = append(p.Epochs, payloadEpoch{uint32(i + 1), e.Key.Secret(), e.Root})
	}
	for _, r := range k.Recipients {
		p.Recipients = append(p.Recipients, payloadRecipient{r.Name, r.Key, formatDate(r.Added), sumOfLocked(r.Locked)})
	}
	for _, r := range k.Removed {
		p.Removed = append(p.Removed, payloadRemoved{r.Name, formatDate(r.At), r.Epoch})
	}
	return p.line(remote.MaxKeyset)
}

// line returns the payload as a line of JSON. If it is longer than size, a buffer with keys is left behind in memory.
func (p *payload) line(size int) ([]byte, error) {
	var line bytes.Buffer
	line.Grow(size)
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(p)
	return line.Bytes(), err
}

// clear overwrites the keys.
func (p *payload) clear() {
	for _, e := range p.Epochs {
		clear(e.Key)
	}
}

// sumOfLocked returns the SHA-256 of a locked identity, "" for none.
func sumOfLocked(locked []byte) string {
	if len(locked) == 0 {
		return ""
	}
	sum := sha256.Sum256(locked)
	return hex.EncodeToString(sum[:])
}

func formatDate(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// decode returns the keyset in the content of an envelope. The locked identities are those of the file. It
// refuses every text that encode does not write.
func decode(line []byte, locked [][]byte) (*Keyset, error) {
	var p payload
	if err := json.Unmarshal(line, &p); err != nil {
		return nil, malformed("the content is not the JSON of a keyset")
	}
	defer p.clear()
	again, err := p.line(len(line))
	defer clear(again)
	if err != nil || !bytes.Equal(again, line) || p.Removed == nil {
		return nil, malformed("the content is not in its canonical form")
	}

	k, err := p.keyset()
	if err != nil {
		return nil, err
	}
	if err := k.takeLocked(p.Recipients, locked); err != nil {
		return nil, err
	}
	if err := k.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return k, nil
}

// keyset converts the payload, without locked identities.
func (p *payload) keyset() (*Keyset, error) {
	k := &Keyset{Serial: p.Serial}
	var err [3]error
	k.Remote, err[0] = parseID(p.Remote)
	k.Repository, err[1] = parseID(p.Repository)
	k.Chunker, err[2] = p.Chunker.params()
	for _, err := range err {
		if err != nil {
			return nil, err
		}
	}

	for i, e := range p.Epochs {
		key, err := crypt.ParseKey(e.Key)
		if err != nil || int64(e.Number) != int64(i+1) {
			return nil, malformed("epoch %d", i+1)
		}
		k.Epochs = append(k.Epochs, Epoch{key, e.Root})
	}
	for _, r := range p.Recipients {
		added, err := parseDate(r.Date)
		if err != nil {
			return nil, err
		}
		k.Recipients = append(k.Recipients, Recipient{Name: r.Name, Key: r.Recipient, Added: added})
	}
	for _, r := range p.Removed {
		at, err := parseDate(r.Date)
		if err != nil {
			return nil, err
		}
		k.Removed = append(k.Removed, Removed{r.Name, at, r.Epoch})
	}
	return k, nil
}

// takeLocked gives the recipients their locked identities. Each identity belongs to one recipient.
func (k *Keyset) takeLocked(recipients []payloadRecipient, locked [][]byte) error {
	bySum := map[string][]byte{}
	for _, data := range locked {
		bySum[sumOfLocked(data)] = data
	}
	if len(bySum) < len(locked) {
		return malformed("with a locked identity twice")
	}
	for i, r := range recipients {
		if r.Locked == "" {
			continue
		}
		data, ok := bySum[r.Locked]
		if !ok {
			return malformed("without the locked identity of %q", r.Name)
		}
		k.Recipients[i].Locked = data
		delete(bySum, r.Locked)
	}
	if len(bySum) > 0 {
		return malformed("with a locked identity that belongs to no recipient")
	}
	return nil
}

func (c payloadChunker) params() (chunker.Params, error) {
	polynomial, err := strconv.ParseUint(c.Polynomial, 0, 64)
	if err != nil || c.Polynomial != "0x"+strconv.FormatUint(polynomial, 16) {
		return chunker.Params{}, malformed("polynomial %.20q", c.Polynomial)
	}
	return chunker.Params{Polynomial: polynomial, Min: c.Min, Avg: c.Average, Max: c.Max}, nil
}

func parseID(digits string) (id [16]byte, err error) {
	b, err := hex.DecodeString(digits)
	if err != nil || len(b) != len(id) || hex.EncodeToString(b) != digits {
		return id, malformed("id %.40q", digits)
	}
	return [16]byte(b), nil
}

func parseDate(text string) (time.Time, error) {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil || formatDate(t) != text {
		return time.Time{}, malformed("date %.20q", text)
	}
	return t, nil
}
