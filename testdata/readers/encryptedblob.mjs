// Opens the vectors of docs/format/encrypted.md with the library of Node alone:
//
//     node testdata/readers/encryptedblob.mjs testdata/vectors/encryptedblob.json
//
// It shows that the page describes the format completely, and is a start for readers of others.
import { createDecipheriv, hkdfSync, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";

const SEGMENT = 16384, TAG = 16, MIB = 1 << 20;
const TYPES = { packs: 1, index: 2, root: 3, state: 4 };

// pad returns the size to which a plain blob of n bytes is padded.
function pad(n) {
  for (const full of [8 * MIB, 16 * MIB, 32 * MIB]) {
    if (n > full - 2 * MIB && n <= full) return full;
  }
  if (n <= 4096) return 4096;
  const e = Math.floor(Math.log2(n)), s = Math.floor(Math.log2(e)) + 1, step = 2 ** (e - s);
  return Math.ceil(n / step) * step;
}

function nonce(number, kind) {
  const iv = Buffer.alloc(12);
  iv.writeBigUInt64BE(BigInt(number), 3);
  iv[11] = kind;
  return iv;
}

function decrypt(key, iv, stored) {
  const d = createDecipheriv("aes-256-gcm", key, iv);
  d.setAuthTag(stored.subarray(stored.length - TAG));
  return Buffer.concat([d.update(stored.subarray(0, stored.length - TAG)), d.final()]);
}

class Newer extends Error {}

// open returns the plain blob.
function open(epochKeys, remoteID, name, stored) {
  const type = TYPES[name.split("/")[0]], size = type === 3 ? 120 : 88;
  if (stored.length < size || stored.toString("latin1", 0, 8) !== "kistblob") throw new Error("not a blob");
  if (stored[8] !== type) throw new Error("another type");
  if (stored[10] === 0) throw new Error("not encrypted");
  if (stored[10] > 1 || stored[9] > 1) throw new Newer("newer format");
  if (stored[9] !== 1 || stored[11] !== 0) throw new Error("malformed header");
  const epochKey = epochKeys[stored.readUInt32BE(12)];
  if (!epochKey) throw new Error("the key of the epoch is missing");

  const info = Buffer.concat([Buffer.from("kist blob 1"), remoteID, stored.subarray(0, 32), stored.subarray(88, size), Buffer.from(name)]);
  const keys = Buffer.from(hkdfSync("sha256", epochKey, stored.subarray(16, 32), info, 64));
  const key = keys.subarray(0, 32);
  if (!timingSafeEqual(keys.subarray(32), stored.subarray(32, 64))) throw new Error("the header is not authentic");
  const plain = Number(decrypt(key, nonce(0, 2), stored.subarray(64, 88)).readBigUInt64BE());
  const padded = pad(plain), segments = Math.ceil(padded / SEGMENT);
  if (stored.length !== size + padded + segments * TAG) throw new Error("another length");

  const parts = [];
  for (let i = 0; i < segments; i++) {
    const begin = size + i * (SEGMENT + TAG), end = Math.min(begin + SEGMENT + TAG, stored.length);
    parts.push(decrypt(key, nonce(i, i === segments - 1 ? 1 : 0), stored.subarray(begin, end)));
  }
  const all = Buffer.concat(parts);
  if (all.subarray(plain).some((b) => b !== 0)) throw new Error("the padding is not zero");
  return all.subarray(0, plain);
}

function opened(set, blob, stored) {
  const epochs = Object.fromEntries(Object.entries(set.epochs).map(([n, key]) => [n, Buffer.from(key, "hex")]));
  try {
    return open(epochs, Buffer.from(set.remote, "hex"), blob, stored);
  } catch (err) {
    return err instanceof Newer ? "newer" : "damaged";
  }
}

const set = JSON.parse(readFileSync(process.argv[2]));
let failed = 0;
function want(what, ok) {
  if (!ok) {
    failed++;
    console.log(`failed: ${what}`);
  }
}

for (const [n, padded] of set.pads) want(`pad(${n})`, pad(n) === padded);
for (const v of set.blobs) {
  const stored = Buffer.from(v.hex ?? set.blobs.find((b) => b.name === v.of).hex, "hex");
  for (const [at, bits] of v.flip ?? []) stored[at] ^= bits;
  const got = opened(set, v.blob, v.length === undefined ? stored : stored.subarray(0, v.length));
  const plain = Buffer.from(Array.from({ length: v.plain ?? 0 }, (_, i) => (7 * i) % 256));
  want(v.name, v.error ? got === v.error : Buffer.isBuffer(got) && got.equals(plain));
  if (v.hex === undefined || v.plain > 1000) continue;
  for (let at = 0; at < stored.length; at++) {
    const changed = Buffer.from(stored);
    changed[at] ^= 1;
    want(`${v.name}, byte ${at}`, opened(set, v.blob, changed) === "damaged");
  }
}
console.log(failed ? `${failed} failed` : `${set.blobs.length} blobs: all as expected`);
process.exit(failed ? 1 : 0);
