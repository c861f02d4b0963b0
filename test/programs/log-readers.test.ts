import { execFile } from 'node:child_process';
import { copyFileSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { logKeysOf } from '../../control-plane/log/checkpoint-round.ts';
import { LogWriter } from '../../control-plane/log/keep-log.ts';
import { must } from '../../shared/errors/assert.ts';
import { renderVkey } from '../../shared/log/note.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import { findDebianProgram } from '../support/run/debian-program.ts';
import { type Api, startOwnApi } from '../support/service/api.ts';

const run = promisify(execFile);

/** Go's checksum database reads the log: notes, tiles, inclusion and consistency. */
describe('the log, read by programs of others', () => {
  const folder = temporaryFolder();
  let api: Api;
  let writer: LogWriter;
  let url: string;
  let program: string;

  beforeAll(async () => {
    const go = await findDebianProgram('go');
    program = join(folder.path, 'log-reader');
    copyFileSync(fileURLToPath(new URL('../support/data/log-reader.go', import.meta.url)), `${program}.go`);
    await run(go, ['build', '-o', program, `${program}.go`], {
      env: {
        ...{ PATH: process.env['PATH'], HOME: folder.path, GOCACHE: join(folder.path, 'cache') },
        // Debian's packages of Go modules, and no network.
        ...{ GOPATH: '/usr/share/gocode', GO111MODULE: 'off', GOFLAGS: '', GOPROXY: 'off' },
      },
      timeout: 300_000,
    });
    api = await startOwnApi();
    writer = new LogWriter(api.deps, async () => undefined);
    await api.app.listen({ port: 0, host: '127.0.0.1' });
    url = `http://127.0.0.1:${(api.app.server.address() as AddressInfo).port}/log/`;
  }, 600_000);
  afterAll(async () => {
    await api?.close();
    folder.remove();
  });

  const vkey = () => {
    const key = must(logKeysOf(api.deps, '127.0.0.1:8080/log')[0], 'there is a key');
    return renderVkey(key.name, key.type, key.publicKey);
  };
  const read = async (older = '', proof = '') => (await run(program, [url, vkey(), older, proof])).stdout;
  const logged = async () => {
    await writer.round(() => false);
    // A checkpoint is kept for a moment.
    const [row] = await api.deps.sql<{ published: string }[]>`SELECT published FROM log_trees`;
    await until(async () => (await (await fetch(`${url}checkpoint`)).text()) === row?.published, {
      what: 'the checkpoint to be served',
    });
  };
  const chains = (count: number) => api.deps.sql`
    INSERT INTO chains (chain_id, account_id, mode, sequence, hash)
    SELECT 'pass_' || n, account_id, 'live', 1, 'sha256:' || encode(sha256(n::text::bytea), 'hex')
    FROM accounts, generate_series(1, ${count}) AS n WHERE is_operator ON CONFLICT (chain_id) DO NOTHING`;

  it('gives what it promises at each size, over several levels of tiles', async () => {
    const older = join(folder.path, 'older');
    let before = 0;
    for (const count of [1, 200, 300, 1_100]) {
      await chains(count);
      await logged();
      const checkpoint = await (await fetch(`${url}checkpoint`)).text();
      const output = await read(before === 0 ? '' : older);
      const size = Number(checkpoint.split('\n')[1]);
      expect(output).toBe(`entries ${size}\n${before === 0 ? '' : `consistent with ${before}\n`}`);
      writeFileSync(older, checkpoint);
      before = size;
    }
    expect(before).toBeGreaterThan(1_100);
  });

  it('proves a record to a stranger', async () => {
    const gate = await api.createGate();
    const passport = await api.issuePassport();
    const { body } = await api.call({
      url: `/v1/gates/${gate.gate_id}/check`,
      body: { passport: passport.jwt, request: { permission_key: 'orders:create' } },
    });
    await logged();
    const proof = join(folder.path, 'record.tlog-proof');
    writeFileSync(proof, (await api.call({ url: `/v1/attestations/${body.attestation_id}/proof` })).body);
    const record = (await api.call({ url: `/v1/attestations/${body.attestation_id}` })).body;
    expect(await read('', proof)).toContain(`proven ${passport.passport_id} 1 ${record.hash}\n`);
  });

  it('is refused where one bit of a checkpoint differs', async () => {
    const forged = join(folder.path, 'forged');
    const checkpoint = await (await fetch(`${url}checkpoint`)).text();
    writeFileSync(
      forged,
      checkpoint.replace(/\n(\d+)\n/, (_all, size) => `\n${Number(size) - 1}\n`),
    );
    await expect(read(forged)).rejects.toThrow('invalid signature');
  });
});
