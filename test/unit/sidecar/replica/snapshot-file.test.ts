import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { chooseEd25519 } from '../../../../shared/crypto/choose-ed25519.ts';
import { snapshotFile, TrustedKeysError } from '../../../../sidecar/replica/snapshot-file.ts';
import { useFolder } from '../../../support/base/use.ts';
import { gateBody, ModelService, standing } from '../../../support/data/model-service.ts';

const folder = useFolder();
let service: ModelService;
beforeEach(() => {
  service = new ModelService(chooseEd25519());
});

const changesFile = () =>
  join(folder.path, readdirSync(folder.path).find((name) => name.startsWith('changes-')) ?? '');

describe('the snapshot on disk', () => {
  it('is not there at first, in a folder that is not there either', async () => {
    expect(await snapshotFile(join(folder.path, 'none')).load()).toBeNull();
  });

  it('gives the snapshot and appended entries back to the next process', async () => {
    const file = snapshotFile(join(folder.path, 'deep', 'er'));
    const signed = service.snapshot();
    const entries = [1, 2, 3].map((n) => service.change('global', standing(n, 'revoked')));
    await file.replace(signed);
    await file.append(entries.slice(0, 2));
    await file.append(entries.slice(2));
    expect(await snapshotFile(join(folder.path, 'deep', 'er')).load()).toEqual({ signed, entries });
  });

  it('forgets the old entries with the old snapshot, also where the process ends between the two steps', async () => {
    const file = snapshotFile(folder.path);
    await file.replace(service.snapshot());
    await file.append([service.change('global', standing(1, 'revoked'))]);
    const oldChanges = changesFile();
    const oldText = readFileSync(oldChanges);
    const signed = service.snapshot();
    await file.replace(signed);
    expect(readdirSync(folder.path)).toEqual(['snapshot.json']);
    writeFileSync(oldChanges, oldText);
    expect(await snapshotFile(folder.path).load()).toEqual({ signed, entries: [] });
  });

  it('cuts a torn last entry off, and takes more after it', async () => {
    const signed = service.snapshot();
    const entries = [1, 2, 3].map((n) => service.change('global', standing(n, 'revoked')));
    const file = snapshotFile(folder.path);
    await file.replace(signed);
    await file.append(entries.slice(0, 2));
    appendFileSync(changesFile(), JSON.stringify(entries[2]).slice(0, -1));
    const next = snapshotFile(folder.path);
    expect((await next.load())?.entries).toEqual(entries.slice(0, 2));
    await next.append(entries.slice(2));
    expect((await snapshotFile(folder.path).load())?.entries).toEqual(entries);
  });

  it('is nothing where the file is not a signed snapshot', async () => {
    writeFileSync(join(folder.path, 'snapshot.json'), '{"snapshot":');
    expect(await snapshotFile(folder.path).load()).toBeNull();
  });

  it('is readable by its owner alone: it holds hashes of keys', async () => {
    const file = snapshotFile(folder.path);
    await file.writeTrustedKeys(service.keys);
    await file.replace(service.snapshot());
    await file.append([service.change('account', { kind: 'gate.put', body: gateBody(1) })]);
    const names = readdirSync(folder.path);
    expect(names).toHaveLength(3);
    for (const name of names) expect(statSync(join(folder.path, name)).mode & 0o777).toBe(0o600);
  });
});

describe('the trusted keys on disk', () => {
  it('are none at first, then those that were written', async () => {
    const file = snapshotFile(folder.path);
    expect(await file.readTrustedKeys()).toEqual([]);
    await file.writeTrustedKeys(service.keys);
    expect(await snapshotFile(folder.path).readTrustedKeys()).toEqual(service.keys);
  });

  it('are never taken for none where the file is damaged', async () => {
    writeFileSync(join(folder.path, 'sync-keys.json'), '[{"kid":');
    await expect(snapshotFile(folder.path).readTrustedKeys()).rejects.toThrow(TrustedKeysError);
    await expect(snapshotFile(folder.path).readTrustedKeys()).rejects.toThrow('sync-keys.json is damaged');
  });
});

describe('the form of records on disk', () => {
  const path = () => join(folder.path, 'record-form');

  it('is 1 at first, then the one that was written', async () => {
    expect(await snapshotFile(join(folder.path, 'none')).readRecordForm()).toBe(1);
    for (const form of [2, 1, 2] as const) {
      await snapshotFile(folder.path).writeRecordForm(form);
      expect(await snapshotFile(folder.path).readRecordForm()).toBe(form);
    }
  });

  it.each([
    ['is torn', () => writeFileSync(path(), '')],
    ['is of a later version', () => writeFileSync(path(), '3')],
    ['is a folder', () => mkdirSync(path())],
    ['leads nowhere', () => symlinkSync(join(folder.path, 'gone'), path())],
  ])('is 1 where its file %s', async (_what, damage) => {
    damage();
    expect(await snapshotFile(folder.path).readRecordForm()).toBe(1);
  });

  it.runIf(process.platform === 'linux')('is 1 where the disk fails, which a start does not', async () => {
    // The memory of a process cannot be read at its beginning (proc(5)).
    symlinkSync('/proc/self/mem', path());
    await expect(readFile(path())).rejects.toThrow('EIO');
    expect(await snapshotFile(folder.path).readRecordForm()).toBe(1);
  });
});
