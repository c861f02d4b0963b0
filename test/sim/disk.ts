import type { Chance } from './chance.ts';

/**
 * A disk with what a kernel holds of it in memory. A process that dies leaves all it wrote; a power cut
 * leaves what was synced, and of the rest what the kernel happened to have written.
 */
export class Disk {
  readonly root = new Inode('folder', 1);
  /** What fails now. */
  trouble: DiskTrouble = noTrouble;
  readonly #chance: Chance;
  #inodes = 1;

  constructor(chance: Chance) {
    this.#chance = chance;
  }

  /** Throws ENOENT. */
  at(path: string): Inode {
    return this.find(path) ?? fail('ENOENT', path);
  }

  find(path: string): Inode | null {
    let inode: Inode | undefined = this.root;
    for (const name of partsOf(path)) inode = inode?.kind === 'folder' ? inode.entries.get(name) : undefined;
    return inode ?? null;
  }

  /** The folder of a path, and its name there. */
  place(path: string): { readonly folder: Inode; readonly name: string } {
    const parts = partsOf(path);
    const name = parts.pop() ?? fail('EINVAL', path);
    const folder = this.at(parts.join('/'));
    if (folder.kind !== 'folder') fail('ENOTDIR', path);
    return { folder, name };
  }

  make(kind: Inode['kind'], path: string): Inode {
    const { folder, name } = this.place(path);
    this.spend(path);
    const inode = new Inode(kind, ++this.#inodes);
    folder.entries.set(name, inode);
    return inode;
  }

  makeFolders(path: string): void {
    let folder = this.root;
    for (const name of partsOf(path)) {
      let next = folder.entries.get(name);
      if (next === undefined) {
        this.spend(path);
        next = new Inode('folder', ++this.#inodes);
        folder.entries.set(name, next);
      }
      folder = next;
    }
  }

  /** Throws where the disk fails or is full. */
  spend(path: string): void {
    if (this.trouble.isFull) fail('ENOSPC', path);
    this.touch(path);
  }

  /** Any operation. */
  touch(path: string): void {
    if (this.#chance.happens(this.trouble.fails)) fail('EIO', path);
  }

  /** How long the next operation takes. */
  get latencyMs(): number {
    return this.trouble.slowMs > 0
      ? this.#chance.between(0, this.trouble.slowMs)
      : this.#chance.between(0.02, 0.5);
  }

  write(file: Inode, bytes: Uint8Array, position: number): number {
    if (this.trouble.isFull) {
      // A full disk takes the part of it for which it has blocks.
      const part = this.#chance.below(2) * Math.floor(bytes.length / 2);
      if (part === 0) fail('ENOSPC', 'write');
      file.write(bytes.subarray(0, part), position);
      return part;
    }
    if (this.#chance.happens(this.trouble.fails)) {
      // Failed, but what was written may be there.
      const part = this.#chance.happens(0.5) ? bytes.length : this.#chance.below(bytes.length);
      if (this.#chance.happens(0.5)) file.write(bytes.subarray(0, part), position);
      fail('EIO', 'write');
    }
    file.write(bytes, position);
    if (this.trouble.failsWritten) fail('EIO', 'write');
    return bytes.length;
  }

  sync(inode: Inode): void {
    if (this.trouble.syncs === 'fail' || this.#chance.happens(this.trouble.fails)) {
      // The kernel drops the pages that it could not write, and the next fsync knows nothing of them.
      inode.isBad = true;
      fail('EIO', 'fsync');
    }
    if (this.trouble.syncs === 'lie') return;
    inode.makeDurable();
  }

  /** What the kernel had in memory is gone. */
  cutPower(): void {
    this.#cut(this.root, new Set());
  }

  #cut(inode: Inode, seen: Set<Inode>): void {
    if (seen.has(inode)) return;
    seen.add(inode);
    if (inode.kind === 'file') inode.cut(this.#chance);
    if (inode.kind !== 'folder') return;
    if (inode.isDirty && this.#chance.happens(0.5)) inode.entries = new Map(inode.durableEntries);
    inode.makeDurable();
    for (const each of inode.entries.values()) this.#cut(each, seen);
  }
}

export interface DiskTrouble {
  /** The probability that an operation fails with EIO. */
  readonly fails: number;
  /** Writes fail with EIO, and what was written is there. */
  readonly failsWritten: boolean;
  readonly isFull: boolean;
  readonly syncs: 'work' | 'fail' | 'lie';
  /** 0: as fast as usual. */
  readonly slowMs: number;
}

export const noTrouble: DiskTrouble = {
  fails: 0,
  failsWritten: false,
  isFull: false,
  syncs: 'work',
  slowMs: 0,
};

const pageBytes = 4_096;

export class Inode {
  readonly kind: 'file' | 'folder' | 'socket';
  readonly number: number;
  entries = new Map<string, Inode>();
  durableEntries = new Map<string, Inode>();
  mtimeMs = 0;
  size = 0;
  /** A write-back has failed that no fsync has told of. */
  isBad = false;
  /** Who listens on a socket; null: nobody does any more. */
  listener: { readonly isAlive: boolean } | null = null;
  /** Up to the last byte that is not zero. */
  #data = Buffer.alloc(0);
  #used = 0;
  #durable = Buffer.alloc(0);
  #durableSize = 0;
  #isDirty = false;

  constructor(kind: Inode['kind'], number: number) {
    this.kind = kind;
    this.number = number;
  }

  get isDirty(): boolean {
    if (this.kind !== 'folder') return this.#isDirty;
    if (this.entries.size !== this.durableEntries.size) return true;
    for (const [name, inode] of this.entries) if (this.durableEntries.get(name) !== inode) return true;
    return false;
  }

  write(bytes: Uint8Array, position: number): void {
    const end = position + bytes.length;
    if (end > this.#data.length) {
      const larger = Buffer.alloc(Math.max(end, 2 * this.#data.length, 1_024));
      this.#data.copy(larger, 0, 0, this.#used);
      this.#data = larger;
    }
    this.#data.set(bytes, position);
    this.#used = Math.max(this.#used, end);
    this.size = Math.max(this.size, end);
    this.#isDirty = true;
  }

  truncate(length: number): void {
    if (length < this.#used) {
      this.#data.fill(0, length, this.#used);
      this.#used = length;
    }
    this.size = length;
    this.#isDirty = true;
  }

  /** Returns how many bytes there are; fewer at the end of the file. */
  read(into: Uint8Array, offset: number, length: number, position: number): number {
    const count = Math.max(0, Math.min(length, this.size - position));
    const known = Math.max(0, Math.min(count, this.#used - position));
    into.set(this.#data.subarray(position, position + known), offset);
    into.fill(0, offset + known, offset + count);
    return count;
  }

  text(): string {
    const bytes = Buffer.alloc(this.size);
    this.#data.copy(bytes, 0, 0, Math.min(this.#used, this.size));
    return bytes.toString('utf8');
  }

  makeDurable(): void {
    if (this.kind === 'folder') {
      this.durableEntries = new Map(this.entries);
      return;
    }
    if (!this.#isDirty) return;
    this.#durable = Buffer.from(this.#data.subarray(0, this.#used));
    this.#durableSize = this.size;
    this.#isDirty = false;
  }

  /** Of what was not synced, some pages had been written. */
  cut(chance: Chance): void {
    if (!this.#isDirty) return;
    const size = chance.happens(0.5) ? this.size : this.#durableSize;
    const kept = Buffer.alloc(Math.max(this.#used, this.#durable.length));
    this.#durable.copy(kept);
    for (let at = 0; at < this.#used; at += pageBytes) {
      if (chance.happens(0.5)) this.#data.copy(kept, at, at, Math.min(at + pageBytes, this.#used));
    }
    this.#data = kept;
    this.#used = Math.min(kept.length, size);
    this.#data.fill(0, this.#used);
    this.size = size;
    this.makeDurable();
  }
}

const partsOf = (path: string): string[] => path.split('/').filter((part) => part !== '');

/** As Node says it. */
export function fail(code: string, path: string): never {
  throw Object.assign(new Error(`${code}: simulated, ${path}`), { code });
}
