package remotetest

import (
	"bytes"
	"cmp"
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"net/http"
	"net/url"
	"strconv"
)

// fakeList is a page of ListObjectsV2.
type fakeList struct {
	XMLName               xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListBucketResult"`
	Name                  string
	Prefix                string
	KeyCount, MaxKeys     int
	EncodingType          string `xml:",omitempty"`
	IsTruncated           bool
	NextContinuationToken string `xml:",omitempty"`
	Contents              []fakeListEntry
}

type fakeListEntry struct {
	Key          string
	LastModified string
	ETag         string
	Size         int
	StorageClass string
}

func (f *FakeS3) list(w http.ResponseWriter, query url.Values) {
	after := query.Get("start-after")
	if token := query.Get("continuation-token"); token != "" {
		decoded, err := base64.URLEncoding.DecodeString(token)
		if err != nil {
			writeS3Error(w, 400, "InvalidArgument", "The continuation token provided is incorrect")
			return
		}
		after = string(decoded)
	}
	f.mu.Lock()
	size := f.pageSize
	if n, err := strconv.Atoi(query.Get("max-keys")); err == nil {
		size = min(size, n)
	}
	page := fakeList{Name: FakeS3Bucket, Prefix: query.Get("prefix"), MaxKeys: size, EncodingType: query.Get("encoding-type")}
	short := f.rand.Float64() < f.listing.Short
	for _, key := range f.keys(page.Prefix) {
		if key <= after || f.rand.Float64() < f.listing.Hide {
			continue
		}
		if len(page.Contents) == size {
			page.IsTruncated = true
			page.NextContinuationToken = base64.URLEncoding.EncodeToString([]byte(after))
			break
		}
		after = key
		o := f.objects[key]
		sum := md5.Sum(o.data)
		if page.EncodingType == "url" {
			key = url.QueryEscape(key)
		}
		page.Contents = append(page.Contents, fakeListEntry{
			Key: key, LastModified: o.modified.Format("2006-01-02T15:04:05.000Z"), ETag: `"` + hex.EncodeToString(sum[:]) + `"`,
			Size: len(o.data), StorageClass: cmp.Or(o.class, "STANDARD"),
		})
	}
	f.mu.Unlock()
	if short {
		page.Contents = page.Contents[:len(page.Contents)/2]
		page.IsTruncated, page.NextContinuationToken = false, ""
	}
	page.KeyCount = len(page.Contents)
	var out bytes.Buffer
	out.WriteString(xml.Header)
	if err := xml.NewEncoder(&out).Encode(page); err != nil {
		writeS3Error(w, 500, "InternalError", err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/xml")
	w.Write(out.Bytes())
}
