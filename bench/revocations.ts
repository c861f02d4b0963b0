import { contest } from './contest.ts';
import { mebibytes, memoryOf } from './memory.ts';
import { addRevocations } from './passports.ts';
import { warmLoad } from './records.ts';
import type { BenchOptions } from './row.ts';
import type { Table } from './table.ts';
import { wantedOf } from './targets.ts';

const revokedPassports = 1_000_000;

/** P8: warm decisions with a million revoked passports in memory, and with none. */
export const revocations = (options: BenchOptions): Promise<Table> =>
  contest(
    options,
    { row: 'revocations', title: 'Warm decisions among a million revocations, on one core', notes: [] },
    async (scene) => {
      const none = await scene.installed();
      scene.say(
        `filling a second database with ${revokedPassports.toLocaleString('en-US')} revoked passports`,
      );
      const many = await scene.installed({
        seed: (controlPlane) => addRevocations(controlPlane, revokedPassports),
      });
      const held = await many.sidecarMetric('agent_trust_sidecar_standings');
      if (held !== revokedPassports) throw new Error(`the sidecar holds ${held} revocations`);
      const [among, alone] = [await warmLoad(scene, many, 'many'), await warmLoad(scene, none, 'none')];
      const memory = [many, none].map(({ sidecar }) => `${mebibytes(memoryOf(sidecar.pid).now)} MiB`);
      return {
        contenders: [
          {
            ...among,
            name: 'a million revocations',
            finish: among.shipped,
            does: 'looks each passport, issuer and account up among a million',
            doesNot: '',
            target: null,
          },
          {
            ...alone,
            name: 'no revocation',
            finish: alone.shipped,
            does: 'the same look-ups in empty tables',
            doesNot: '',
            target: wantedOf('P8'),
          },
        ],
        notes: [`Memory of the two sidecars before the load: ${memory.join(' and ')}.`],
      };
    },
  );
