import { Type } from 'typebox';
import { limits } from '../../shared/model/limits.ts';
import { GateTestBody } from '../../shared/wire/api/check.ts';
import { GateTestAnswer } from '../../shared/wire/api/decision.ts';
import { DiscoveryAnswer, DiscoveryQuery, discoverySorts } from '../../shared/wire/api/discovery.ts';
import { closed } from '../../shared/wire/api/fields.ts';
import { GateListItem } from '../../shared/wire/api/gate.ts';
import { NamedListQuery, PageAnswer } from '../../shared/wire/api/paging.ts';
import { testGateUseCase } from '../decisions/test-gate-use-case.ts';
import { discoverGates as discover } from '../discovery/find-offers.ts';
import { listGatesUseCase } from '../gates/list-gates-use-case.ts';
import { defineTool } from './tool.ts';

const { currency, sort, limit, offset, ...wanted } = DiscoveryQuery.properties;

export const discoverGates = defineTool({
  name: 'discover_gates',
  title: 'Find gates',
  description:
    'Finds the gates that offer a capability (a permission such as orders:create, an area such as orders, or a category), with price, ' +
    'promised service level and the signature of the catalog. The cheapest come first unless sort says otherwise.',
  scope: null,
  hints: { readOnlyHint: true },
  holdsForeignText: true,
  input: closed({
    ...wanted,
    currency: Type.Optional(currency),
    sort: Type.Optional(sort),
    limit: Type.Optional(limit),
    offset: Type.Optional(offset),
  }),
  output: DiscoveryAnswer,
  run: (deps, _caller, args) =>
    discover(deps, {
      currency: 'USD',
      sort: discoverySorts[0],
      limit: limits.pageItemsDefault,
      offset: 0,
      ...args,
    }),
});

const { limit: pageLimit, offset: pageOffset, cursor: pageCursor, name } = NamedListQuery.properties;

export const listGates = defineTool({
  name: 'list_gates',
  title: 'List gates',
  description: 'Lists the gates of the account with their rules and counts, the newest first, page by page.',
  scope: listGatesUseCase.scope,
  hints: { readOnlyHint: true },
  input: closed({
    name,
    limit: Type.Optional(pageLimit),
    offset: Type.Optional(pageOffset),
    cursor: pageCursor,
  }),
  output: PageAnswer(GateListItem),
  run: (deps, caller, args) =>
    listGatesUseCase.run(deps, caller, { limit: limits.pageItemsDefault, offset: 0, ...args }),
});

export const testGate = defineTool({
  name: 'test_gate',
  title: 'Test a gate',
  description:
    'Returns what a gate would decide about a passport and a request, without counting it: allow, block or suspend, with the checks that ' +
    'were made and the reason. The test itself is recorded as an attestation.',
  scope: testGateUseCase.scope,
  // Changes nothing that is administered, but leaves a record.
  hints: { readOnlyHint: false, destructiveHint: false, idempotentHint: false },
  holdsForeignText: true,
  input: closed({ gate_id: Type.String(), ...GateTestBody.properties }),
  output: GateTestAnswer,
  run: (deps, caller, { gate_id: gateId, ...body }) => testGateUseCase.run(deps, caller, { gateId, body }),
});
