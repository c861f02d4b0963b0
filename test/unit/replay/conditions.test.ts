import { expect, it } from 'vitest';
import { parseAttestation } from '../../../shared/wire/evidence/attestation.ts';
import { judgedRecords, linesWith } from '../../support/data/records-with-conditions.ts';
import { replayText } from '../../support/data/replay.ts';

it.each(judgedRecords)('judges conditions again: $name', (each) => {
  const lines = linesWith(each);
  const [record] = lines.flatMap((line) => parseAttestation(JSON.parse(line)) ?? []).slice(-1);
  expect(record).toBeDefined();
  const { contradictions, decisions, unjudged } = replayText(`${lines.join('\n')}\n`);
  const { agrees, contradicted } = decisions[record?.decision ?? 'PERMIT'];
  const found =
    agrees === 1
      ? 'agrees'
      : contradicted === 1
        ? ['contradicted', contradictions[0]?.fault]
        : ['unjudged', Object.keys(unjudged)[0]];
  expect(found).toEqual(each.judged);
});
