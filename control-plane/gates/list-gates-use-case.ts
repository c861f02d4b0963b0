import { type CountedGate, renderGateListItem } from '../../shared/wire/gate.ts';
import type { NamedPageRequest } from '../../shared/wire/paging.ts';
import { partsAsked, placePage, renderPage } from '../../shared/wire/paging.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import type { UseCase } from '../http/use-case.ts';
import { readStalePage } from '../storage/replica-reads.ts';
import { listGates } from './gate-store.ts';

/** `GET /gates` */
export const listGatesUseCase = {
  scope: 'gates:read',
  run: async (deps, caller, query) => {
    const toItem = (gate: CountedGate) => renderGateListItem(gate, deps.gateHost);
    return readStalePage(deps.sql, { owner: caller.accountId, query }, async (sql, asked) => {
      const page = placePage(asked, caller, 'gates', partsAsked(asked));
      const found = await listGates(sql, caller, {
        namePart: asked.name ?? null,
        page,
        toItem,
        logger: deps.logger,
      });
      return renderPage(found, page, (item) => item);
    });
  },
} as const satisfies UseCase<AppendingDeps, NamedPageRequest, object>;
