package object

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// What commits and tags have in common.

// useKind is use for a position that holds links of one kind, or none.
func (h *header) useKind(pos uint16, kind Kind) (ID, error) {
	key, err := h.use(pos)
	if err == nil && pos != 0 && key.Kind != kind {
		err = faultf(ReasonLinkKind, "%s in place of a %s", key.Kind, kind)
	}
	return key.ID, err
}

// decode decodes a body that is a map.
func (h *header) decode(body any) error {
	if len(h.body) == 0 || h.body[0]&(7<<5) != cborMap {
		return faultf(ReasonBody, "not a map")
	}
	return textCodec.unmarshal(h.body, body)
}

// appendNode encodes a node that is not a list.
func appendNode(kind Kind, set *linkSet, body any) ([]byte, error) {
	var buf bytes.Buffer
	buf.Write(appendHeader(nil, kind, set))
	if err := textCodec.marshal(&buf, body); err != nil {
		return nil, err
	}
	if buf.Len() > MaxNodeSize {
		return nil, faultf(ReasonTooBig, "%d bytes", buf.Len())
	}
	return buf.Bytes(), nil
}

// compareEncoding checks that encoding a decoded node gives data again;
// encoding checks the rules about fields.
func compareEncoding(data []byte, encode func() ([]byte, error)) error {
	again, err := encode()
	if err == nil && !bytes.Equal(again, data) {
		err = &fault{reason: ReasonCanonical}
	}
	return err
}

func checkSignature(s Signature) error {
	if err := checkText("name", s.Name); err != nil {
		return err
	}
	if err := checkText("email", s.Email); err != nil {
		return err
	}
	const day = 24 * 60
	if s.Time.Nsec >= 1e9 || s.Zone <= -day || s.Zone >= day {
		return faultf(ReasonSignature, "%d nanoseconds, %d minutes from UTC", s.Time.Nsec, s.Zone)
	}
	return nil
}

// checkText checks a line of text.
func checkText(what, s string) error {
	if len(s) > MaxTextSize || !utf8.ValidString(s) || strings.ContainsFunc(s, isControl) {
		return faultf(ReasonText, "%s longer than %d bytes, not UTF-8 or with control characters", what, MaxTextSize)
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

func checkMessage(s string) error {
	if len(s) > MaxMessageSize || !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		return faultf(ReasonText, "message longer than %d bytes, not UTF-8 or with a NUL", MaxMessageSize)
	}
	return nil
}
