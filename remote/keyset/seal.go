package keyset

import (
	"bytes"
	"fmt"
	"os"
	"slices"

	"filippo.io/age"
	"filippo.io/age/plugin"
)

// Plugins says which plugins of age may run, and how they ask the user. The zero Plugins permits none.
type Plugins struct {
	Allowed []string // names: the program is age-plugin-<name>
	Dialog  Dialog   // nil: there is nobody to ask
}

// Seal returns the stored form, encrypted to all recipients. The same content is in an envelope for
// each kind of recipients. If a plugin must run that plugins does not allow, or if it fails, the error is a [*PluginError]. The error
// matches [ErrTooLarge] if the result has more than remote.MaxKeyset bytes. No recipient is ever left out.
func (k *Keyset) Seal(plugins Plugins) (*File, error) {
	if err := k.check(); err != nil {
		return nil, err
	}
	line, err := k.encode()
	if err != nil {
		return nil, err
	}
	defer clear(line)

	var envelopes []envelope
	for _, kind := range []Kind{Hybrid, Classic} {
		armored, err := k.sealFor(kind, line, plugins)
		if err != nil {
			return nil, err
		}
		if armored != nil {
			envelopes = append(envelopes, envelope{kind: kind, armored: armored})
		}
	}

	f, err := build(k.Remote, k.Serial, envelopes, k.locked())
	if err != nil {
		return nil, err
	}
	return f, k.checkSealed(f)
}

// locked returns the locked identities.
func (k *Keyset) locked() (list [][]byte) {
	for _, r := range k.Recipients {
		if len(r.Locked) > 0 {
			list = append(list, r.Locked)
		}
	}
	return list
}

// sealFor returns the envelope of a kind, nil if no recipient is of that kind.
func (k *Keyset) sealFor(kind Kind, line []byte, plugins Plugins) ([]byte, error) {
	var recipients []age.Recipient
	for _, r := range k.Recipients {
		if r.Kind() != kind {
			continue
		}
		recipient, err := r.age(plugins)
		if err != nil {
			return nil, err
		}
		recipients = append(recipients, recipient)
	}
	if len(recipients) == 0 {
		return nil, nil
	}

	var data bytes.Buffer
	w, err := age.Encrypt(&data, recipients...)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(line); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return toArmor(data.Bytes()), nil
}

// checkSealed returns an error unless each recipient has at least one stanza.
func (k *Keyset) checkSealed(f *File) error {
	want := map[Kind]int{}
	for _, r := range k.Recipients {
		want[r.Kind()]++
	}
	for _, e := range f.envelopes {
		if want[e.kind] > len(e.stanzas) {
			return fmt.Errorf("an envelope with %d stanzas for %d recipients", len(e.stanzas), want[e.kind])
		}
		delete(want, e.kind)
	}
	if len(want) > 0 {
		return fmt.Errorf("recipients without an envelope: %v", want)
	}
	return nil
}

// age returns age's form of a recipient.
func (r Recipient) age(plugins Plugins) (age.Recipient, error) {
	name := pluginOf(r.Key)
	if name == "" {
		return recipientOf(r.Key)
	}
	if !slices.Contains(plugins.Allowed, name) {
		return nil, &PluginError{Plugin: name, Recipient: r.Name, Err: ErrPluginForbidden}
	}
	p, err := plugin.NewRecipient(r.Key, clientUI(plugins.Dialog))
	if err != nil {
		return nil, &PluginError{Plugin: name, Recipient: r.Name, Err: err}
	}
	return &pluginRecipient{r.Name, p}, nil
}

// pluginRecipient runs a plugin.
type pluginRecipient struct {
	name   string
	plugin *plugin.Recipient
}

// Wrap implements [age.Recipient]. The label of plugins that are safe against quantum computers is dropped: age would
// refuse them beside others, and they lose nothing, because the content is in one envelope with all of these.
func (p *pluginRecipient) Wrap(fileKey []byte) ([]*age.Stanza, error) {
	silencePlugins()
	stanzas, labels, err := p.plugin.WrapWithLabels(fileKey)
	if err == nil && len(slices.DeleteFunc(labels, func(l string) bool { return l == "postquantum" })) > 0 {
		err = fmt.Errorf("it refuses other recipients beside it: labels %q", labels)
	}
	if err != nil {
		return nil, &PluginError{Plugin: p.plugin.Name(), Recipient: p.name, Err: err}
	}
	return stanzas, nil
}

// silencePlugins keeps age from printing its conversation with plugins, file keys included.
func silencePlugins() { _ = os.Unsetenv("AGEDEBUG") }
