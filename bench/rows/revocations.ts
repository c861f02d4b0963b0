import { contest } from '../harness/contest.ts';
import { mebibytes, memoryOf } from '../harness/memory.ts';
import { addRevocations } from '../harness/passports.ts';
import type { BenchOptions } from '../harness/row.ts';
import type { Table } from '../harness/table.ts';
import { wantedOf } from '../harness/targets.ts';
import { warmLoad } from '../harness/warm-load.ts';

const revokedPassports = { full: 1_000_000, quick: 100_000, brief: 1_000 } as const;

/** P8: warm decisions with a million revoked passports in memory, and with none. */
export const revocations = (options: BenchOptions): Promise<Table> => {
  const revoked = revokedPassports[options.size];
  const revokedText = revoked.toLocaleString('en-US');
  return contest(
    options,
    {
      row: 'revocations',
      title: `Warm decisions among ${revokedText} revocations, on one core`,
      // The difference is smaller than the spread of the rounds.
      rounds: 15,
      notes: [],
    },
    async (scene) => {
      const none = await scene.installed();
      scene.say(`filling a second database with ${revokedText} revoked passports`);
      const many = await scene.installed({
        seed: (controlPlane) => addRevocations(controlPlane, revoked),
      });
      const held = await many.sidecarMetric('agent_trust_sidecar_standings');
      if (held !== revoked) throw new Error(`the sidecar holds ${held} revocations`);
      const [among, alone] = [await warmLoad(scene, many, 'many'), await warmLoad(scene, none, 'none')];
      const memory = [many, none].map(({ sidecar }) => `${mebibytes(memoryOf(sidecar.pid).now)} MiB`);
      return {
        contenders: [
          {
            ...among,
            name: `${revokedText} revocations`,
            finish: among.shipped,
            does: 'looks each passport, issuer and account up among them',
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
};
