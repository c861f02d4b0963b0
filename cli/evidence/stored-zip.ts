import { createReadStream } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { crc32 } from 'node:zlib';
import { assert } from '../../shared/errors/assert.ts';

/** A file of an archive. */
export interface ZipEntry {
  /** ASCII, with `/` between folders. */
  readonly name: string;
  readonly content: Uint8Array | { readonly path: string };
}

interface Written {
  readonly name: Buffer;
  readonly crc: number;
  readonly size: number;
  readonly offset: number;
}

/** 1980-01-01 00:00, the first moment of the format: an archive does not say when it was made. */
const dosDate = 0x21;
/** Above it a field of 32 bits says that the zip64 field has the number. */
const most32 = 0xff_ff_ff_ff;
const most16 = 0xff_ff;
const versions = { plain: 20, zip64: 45 } as const;

/**
 * Writes a zip archive whose bytes are given by its entries alone. Nothing is compressed: what deflate makes
 * of the same bytes differs between versions of zlib and between processors. Files are read twice, and no
 * more than a piece of one is in memory. Zip64 where a size or an offset has more than 32 bits; `zip64From`
 * is for tests.
 */
export async function writeStoredZip(
  output: FileHandle,
  entries: readonly ZipEntry[],
  zip64From: number = most32,
): Promise<void> {
  const written: Written[] = [];
  let offset = 0;
  const write = async (bytes: Uint8Array) => {
    await output.writeFile(bytes);
    offset += bytes.length;
  };
  for (const { name, content } of entries) {
    assert(/^[\x21-\x7e]+$/.test(name), 'names in an archive are ASCII');
    const entry = { name: Buffer.from(name), ...(await measured(content)), offset };
    await write(localHeader(entry, zip64From));
    const begin = offset;
    for await (const piece of piecesOf(content)) await write(piece);
    assert(offset - begin === entry.size, 'a file stays as it is while it is packed');
    written.push(entry);
  }
  const directory = offset;
  for (const entry of written) await write(directoryEntry(entry, zip64From));
  await write(endOf({ entries: written.length, directory, bytes: offset - directory }, zip64From));
}

async function* piecesOf(content: ZipEntry['content']): AsyncGenerator<Uint8Array> {
  if (content instanceof Uint8Array) yield content;
  else yield* createReadStream(content.path, { highWaterMark: 256 * 1024 });
}

async function measured(
  content: ZipEntry['content'],
): Promise<{ readonly crc: number; readonly size: number }> {
  let [crc, size] = [0, 0];
  for await (const piece of piecesOf(content)) {
    crc = crc32(piece, crc);
    size += piece.length;
  }
  return { crc, size };
}

/** Of these numbers those that need it, in the order of APPNOTE 4.5.3. */
function zip64Field(numbers: readonly number[]): Buffer {
  if (numbers.length === 0) return Buffer.alloc(0);
  const field = Buffer.alloc(4 + 8 * numbers.length);
  field.writeUInt16LE(1, 0);
  field.writeUInt16LE(8 * numbers.length, 2);
  for (const [place, number] of numbers.entries()) field.writeBigUInt64LE(BigInt(number), 4 + 8 * place);
  return field;
}

function localHeader({ name, crc, size }: Written, zip64From: number): Buffer {
  const isLarge = size >= zip64From;
  const extra = zip64Field(isLarge ? [size, size] : []);
  const header = Buffer.alloc(30);
  header.writeUInt32LE(0x04_03_4b_50, 0);
  header.writeUInt16LE(isLarge ? versions.zip64 : versions.plain, 4);
  header.writeUInt16LE(dosDate, 12);
  header.writeUInt32LE(crc, 14);
  header.writeUInt32LE(isLarge ? most32 : size, 18);
  header.writeUInt32LE(isLarge ? most32 : size, 22);
  header.writeUInt16LE(name.length, 26);
  header.writeUInt16LE(extra.length, 28);
  return Buffer.concat([header, name, extra]);
}

function directoryEntry({ name, crc, size, offset }: Written, zip64From: number): Buffer {
  const [isLarge, isFar] = [size >= zip64From, offset >= zip64From];
  const extra = zip64Field([...(isLarge ? [size, size] : []), ...(isFar ? [offset] : [])]);
  const header = Buffer.alloc(46);
  header.writeUInt32LE(0x02_01_4b_50, 0);
  // Made on Unix, so that the mode of the file counts.
  header.writeUInt16LE((3 << 8) | versions.zip64, 4);
  header.writeUInt16LE(isLarge || isFar ? versions.zip64 : versions.plain, 6);
  header.writeUInt16LE(dosDate, 14);
  header.writeUInt32LE(crc, 16);
  header.writeUInt32LE(isLarge ? most32 : size, 20);
  header.writeUInt32LE(isLarge ? most32 : size, 24);
  header.writeUInt16LE(name.length, 28);
  header.writeUInt16LE(extra.length, 30);
  header.writeUInt32LE(0o100644 * 0x1_00_00, 38);
  header.writeUInt32LE(isFar ? most32 : offset, 42);
  return Buffer.concat([header, name, extra]);
}

interface Directory {
  readonly entries: number;
  readonly directory: number;
  readonly bytes: number;
}

function endOf({ entries, directory, bytes }: Directory, zip64From: number): Buffer {
  const isLarge = directory >= zip64From || bytes >= zip64From || entries >= most16;
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06_05_4b_50, 0);
  end.writeUInt16LE(isLarge ? most16 : entries, 8);
  end.writeUInt16LE(isLarge ? most16 : entries, 10);
  end.writeUInt32LE(isLarge ? most32 : bytes, 12);
  end.writeUInt32LE(isLarge ? most32 : directory, 16);
  if (!isLarge) return end;
  const record = Buffer.alloc(56);
  record.writeUInt32LE(0x06_06_4b_50, 0);
  record.writeBigUInt64LE(44n, 4);
  record.writeUInt16LE((3 << 8) | versions.zip64, 12);
  record.writeUInt16LE(versions.zip64, 14);
  record.writeBigUInt64LE(BigInt(entries), 24);
  record.writeBigUInt64LE(BigInt(entries), 32);
  record.writeBigUInt64LE(BigInt(bytes), 40);
  record.writeBigUInt64LE(BigInt(directory), 48);
  const locator = Buffer.alloc(20);
  locator.writeUInt32LE(0x07_06_4b_50, 0);
  locator.writeBigUInt64LE(BigInt(directory + bytes), 8);
  locator.writeUInt32LE(1, 16);
  return Buffer.concat([record, locator, end]);
}
