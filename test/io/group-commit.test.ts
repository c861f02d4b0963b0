import { fstatSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { type CommitOutcome, GroupCommit } from '../../sidecar/attest/group-commit.ts';
import { nodeFiles } from '../../sidecar/attest/spool-files.ts';
import { useFolder } from '../support/base/use.ts';

const folder = useFolder();

/** On a disk that takes until `freed` to close a file: it has many blocks to free. */
function slowCloser() {
  let begun: () => void = () => undefined;
  let free: () => void = () => undefined;
  const hasBegun = new Promise<void>((resolve) => {
    begun = resolve;
  });
  const freed = new Promise<void>((resolve) => {
    free = resolve;
  });
  const close = async (file: number): Promise<void> => {
    begun();
    await freed;
    await nodeFiles.close(file);
  };
  const commit = new GroupCommit({
    files: { ...nodeFiles, close },
    folder: folder.path,
    fsyncMs: 0,
    logger: silentLogger,
    onFailed: (error) => {
      throw error;
    },
    onSynced: () => undefined,
  });
  return { commit, hasBegun, free };
}

const written = (commit: GroupCommit, file: number): Promise<CommitOutcome> => {
  nodeFiles.write(file, Buffer.from('record'), 6, 0);
  return new Promise((resolve) => commit.wrote(file, resolve));
};

describe('a group commit whose disk is slow to close a file', () => {
  it('makes later records durable meanwhile', async () => {
    const { commit, hasBegun, free } = slowCloser();
    commit.closeAfterSync(nodeFiles.create(join(folder.path, 'dropped')));
    await hasBegun;
    const file = nodeFiles.create(join(folder.path, 'next'));
    expect(await written(commit, file)).toBe('durable');
    free();
    await commit.finish();
    await nodeFiles.close(file);
  });

  it('finishes only when every file is closed', async () => {
    const { commit, hasBegun, free } = slowCloser();
    const file = nodeFiles.create(join(folder.path, 'dropped'));
    const settled = written(commit, file);
    commit.closeAfterSync(file);
    let isFinished = false;
    const finished = commit.finish().then(() => {
      isFinished = true;
    });
    expect(await settled).toBe('durable');
    await hasBegun;
    expect(isFinished).toBe(false);
    expect(fstatSync(file).isFile()).toBe(true);
    free();
    await finished;
    expect(() => fstatSync(file)).toThrow('EBADF');
  });
});

describe('a group commit whose disk has failed', () => {
  it('answers a later record after the call that wrote it returned', async () => {
    const commit = new GroupCommit({
      files: { ...nodeFiles, syncData: () => Promise.reject(new Error('EIO')) },
      folder: folder.path,
      fsyncMs: 0,
      logger: silentLogger,
      onFailed: () => undefined,
      onSynced: () => undefined,
    });
    const file = nodeFiles.create(join(folder.path, 'records'));
    expect(await written(commit, file)).toBe('unknown');
    await commit.finish();
    const outcomes: CommitOutcome[] = [];
    commit.wrote(file, (outcome) => outcomes.push(outcome));
    expect(outcomes).toEqual([]);
    await commit.finish();
    expect(outcomes).toEqual(['unknown']);
    await nodeFiles.close(file);
  });
});
