import { type CountedGate, renderGateListItem } from '../../shared/wire/api/gate.ts';
import type { NamedPageRequest } from '../../shared/wire/api/paging.ts';
import { partsAsked, placePage, renderPage } from '../../shared/wire/api/paging.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import type { UseCase } from '../http/use-case.ts';
import { countAble, readAnswering } from '../people/check-approvers.ts';
import { readStalePage } from '../storage/replica-reads.ts';
import { listGates } from './gate-store.ts';

/** `GET /gates` */
export const listGatesUseCase = {
  scope: 'gates:read',
  run: async (deps, caller, query) => {
    return readStalePage(deps.sql, { owner: caller.accountId, query }, async (sql, asked) => {
      const page = placePage(asked, caller, 'gates', partsAsked(asked));
      const found = await listGates(sql, caller, {
        namePart: asked.name ?? null,
        page,
        toItem: (gate: CountedGate) => ({ gate, rule: gate.constraints.approvals?.approvers ?? null }),
        logger: deps.logger,
      });
      const answering = found.items.some(({ rule }) => rule !== null)
        ? await readAnswering(sql, caller.accountId, deps.clock.now())
        : null;
      return renderPage(found, page, ({ gate, rule }) => ({
        ...renderGateListItem(gate, deps.gateHost),
        approvers:
          rule === null || answering === null
            ? null
            : { count: rule.count, independent: rule.independent, able: countAble(rule, answering) },
      }));
    });
  },
} as const satisfies UseCase<AppendingDeps, NamedPageRequest, object>;
