import { expect } from 'vitest';
import { call } from './http-client.ts';
import type { Installation, Running } from './installation.ts';
import { until } from './until.ts';

const noticedMsMax = 10_000;

/** Two control planes, two sidecars, and what happens there before and after a database loses its end. */
export interface Story {
  /** Five records and a PERMIT for each passport, which the database will keep. */
  begin(): Promise<void>;
  /** Records, a revocation and restarts, which it will lose. Resolves once all is acknowledged. */
  goOn(): Promise<void>;
  /** From now on no place may stay silent for longer than 10 s. */
  isNoticed(): Promise<void>;
  recover(): Promise<void>;
}

export function historyStory(
  world: Installation,
  {
    controlPlanes,
    sidecars,
  }: { readonly controlPlanes: readonly Running[]; readonly sidecars: readonly Running[] },
): Story {
  const answers = new Set<string>();
  let gateId = '';
  let kept = { id: '', token: '' };
  let ended = { id: '', token: '' };
  let told: readonly string[] = [];
  let hookId = '';

  const check = async (at: Running, token: string): Promise<string> => {
    const { body } = await call(`${at.origin}/v1/gates/${gateId}/check`, {
      key: world.adminKey,
      body: { passport: token, request: { permission_key: 'orders:create' } },
    });
    return body.decision === 'PERMIT' ? 'PERMIT' : (body.reason ?? body.error?.code);
  };
  const allOf = async (passportId: string): Promise<readonly { id: string; sequence: number }[]> =>
    (await world.api('GET', `/attestations?passport_id=${passportId}&limit=500`)).body.attestations;
  const idsOf = async (passportId: string) => (await allOf(passportId)).map(({ id }) => id);
  const readyz = async ({ origin }: Running) => (await call(`${origin}/readyz`)).body;
  const metrics = async ({ origin }: Running) => (await fetch(`${origin}/metrics`)).text();
  const recover = (apply: boolean) => world.api('POST', '/sync/history/recover', { apply });
  const permits = async (count: number) => {
    for (const sidecar of sidecars) {
      for (let each = 0; each < count; each++)
        await until(async () => (await check(sidecar, kept.token)) === 'PERMIT', { what: 'a PERMIT' });
    }
  };

  return {
    begin: async () => {
      gateId = await world.createGate();
      [kept, ended] = [await world.issuePassport(), await world.issuePassport()];
      const hook = await world.api('POST', '/webhooks', { events: ['history.regressed'], url: null });
      hookId = hook.body.webhook_id;
      await permits(5);
      await until(async () => (await check(sidecars[0] as Running, ended.token)) === 'PERMIT', {
        what: 'one',
      });
      await until(async () => (await allOf(kept.id)).length === 5 * sidecars.length, { what: 'the records' });
    },
    goOn: async () => {
      await permits(10);
      await until(async () => (await allOf(kept.id)).length === 15 * sidecars.length, {
        what: 'more records',
      });
      // What it had written before is shipped to its end, and dropped.
      await sidecars[0]?.restart('SIGTERM');
      for (const sidecar of sidecars)
        await until(async () => (await readyz(sidecar)).control_plane.connected, { what: 'its connection' });
      await permits(1);
      await until(async () => (await allOf(kept.id)).length === 16 * sidecars.length, { what: 'the last' });
      told = await idsOf(kept.id);
      const { body } = await world.api('POST', `/passports/${ended.id}/revoke?wait_ms=5000`, {});
      expect(body.propagation).toMatchObject({ acknowledged: sidecars.length });
      // Right after the acknowledgement.
      await sidecars[1]?.restart('SIGKILL');
    },
    isNoticed: async () => {
      const startedMs = performance.now();
      const everywhere = async () => {
        for (const sidecar of sidecars) answers.add(await check(sidecar, ended.token));
        const histories = await Promise.all([...controlPlanes, ...sidecars].map(readyz));
        return histories.every(({ history }) => history.state === 'regressed');
      };
      await until(everywhere, { what: 'it is noticed everywhere' });
      for (const one of controlPlanes)
        await until(async () => (await metrics(one)).includes('agent_trust_history_regressed 1'), {
          what: 'it',
        });
      for (const one of sidecars)
        expect(await metrics(one)).toContain('agent_trust_sidecar_history_regressed 1');
      expect(performance.now() - startedMs).toBeLessThan(noticedMsMax);
      for (const { program } of controlPlanes)
        await until(() => program.output().includes('history went back'), { what: 'its log' });
      const deliveries = async () => (await world.api('GET', `/webhooks/${hookId}/deliveries`)).body.items;
      await until(async () => (await deliveries()).length === 1, { what: 'the event' });
      expect((await deliveries())[0]).toMatchObject({ event: 'history.regressed' });
      expect((await world.api('POST', '/gates', { name: 'g', trust_level: 'L1' })).status).toBe(503);
      await sidecars[0]?.restart('SIGKILL');
      for (let count = 0; count < 10; count++)
        for (const sidecar of sidecars) answers.add(await check(sidecar, ended.token));
      expect([...answers]).toEqual(['passport_revoked']);
    },
    recover: async () => {
      const isWholePlan = async () => {
        const { taken_back: back, lost } = (await recover(false)).body;
        return back.length === 1 && lost.some(({ chain_id }: { chain_id: string }) => chain_id === kept.id);
      };
      await until(isWholePlan, { what: 'what sidecars know' });
      const { body: done } = await recover(true);
      expect(done).toMatchObject({ applied: true, state: 'whole', taken_back: [{ id: ended.id }] });
      const [entry] = (await world.api('GET', `/audit?target=${done.generation}`)).body.entries;
      const [stated] = entry.after.chains.filter(
        ({ chain_id }: { chain_id: string }) => chain_id === kept.id,
      );
      expect(stated).toMatchObject({ after_sequence: expect.any(Number), last_sequence: told.length });
      const areBack = async () => {
        const ids = await idsOf(kept.id);
        return told.every((id) => ids.includes(id));
      };
      await until(areBack, { what: 'all records are back' });
      const ids = await idsOf(kept.id);
      expect(new Set(ids).size).toBe(ids.length);
      const { handed_in: handedIn } = (await recover(false)).body;
      const [ofKept] = handedIn.filter(({ chain_id }: { chain_id: string }) => chain_id === kept.id);
      expect(ofKept.handed_in).toBe(ofKept.lost);
      for (const sidecar of sidecars) {
        await until(async () => (await check(sidecar, kept.token)) === 'PERMIT', { what: 'decisions go on' });
        expect(await check(sidecar, ended.token)).toBe('passport_revoked');
        await until(async () => (await readyz(sidecar)).history.state === 'whole', { what: 'it is whole' });
      }
      // The hole shows in what is exported, which names the generation.
      const lines: string[] = (await world.api('GET', '/attestations/export')).body.trimEnd().split('\n');
      expect(JSON.parse(lines[0] ?? '').manifest.generation).toBe(done.generation);
      expect(JSON.parse(lines.at(-1) ?? '').end.broken).toContainEqual(
        expect.objectContaining({ chain_id: kept.id }),
      );
    },
  };
}
