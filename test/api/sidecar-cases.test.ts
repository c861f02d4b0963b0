import { expect, it } from 'vitest';
import { RequestMembers } from '../../shared/wire/api/check.ts';
import { shownBy } from '../support/cases/few-cases.ts';
import { describeCases } from '../support/cases/play-at-sidecar.ts';
import { decisionCases } from '../support/cases/read-cases.ts';
import {
  batch,
  check,
  enforce,
  evaluation,
  evaluations,
  forwardAuth,
  forwardedHeaders,
  inProcess,
  stream,
} from '../support/cases/ways-in.ts';
import { startTestEmbedded, startTestSidecar } from '../support/service/sidecar.ts';

describeCases([
  { ways: [inProcess], plays: 'all', start: startTestEmbedded },
  {
    ways: [check, enforce, batch, stream, evaluation, evaluations, forwardAuth],
    plays: 'few',
    start: (options) =>
      startTestSidecar({ ...options, forwardAuth: { trust: 'none', headers: forwardedHeaders } }),
  },
]);

it('cases have every member of a request that a door reads, but for those that are played elsewhere', () => {
  const shown = new Set(decisionCases.flatMap(shownBy));
  const missing = Object.keys(RequestMembers.properties).filter((name) => !shown.has(`reads ${name}`));
  // `enforce` names the gate in each case. The others have tests of outcomes, approval displays and receipts.
  expect(missing).toEqual(['gate_id', 'hold', 'display', 'receipt']);
});
