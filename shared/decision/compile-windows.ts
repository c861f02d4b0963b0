import type { LimitScope, RateLimits, SpendLimits } from '../model/constraints.ts';
import type { CalendarWindowName } from '../quota/window.ts';
import type { LimitKind, WindowLimit } from '../quota/window-limit.ts';

/** Owner of the constraints: a gate's `per` counts, while a passport's limits are always per passport. */
type Holder = 'gate' | 'passport';

/** Rate limits, shortest window first. */
export const compileRateWindows = (limits: RateLimits | null, holder: Holder): readonly WindowLimit[] =>
  limits === null
    ? noLimits
    : windowsOf({ kind: `${holder}_rate`, per: scopeOf(limits, holder) }, [
        ['minute', limits.requestsPerMinute],
        ['hour', limits.requestsPerHour],
        ['day', limits.requestsPerDay],
      ]);

/** Spend limits, shortest window first. */
export const compileSpendWindows = (limits: SpendLimits | null, holder: Holder): readonly WindowLimit[] =>
  limits === null
    ? noLimits
    : windowsOf({ kind: `${holder}_spend`, per: scopeOf(limits, holder) }, [
        ['day', limits.dailyMicroUsd],
        ['month', limits.monthlyMicroUsd],
      ]);

/** `unpriced` alone, or `alert_at`, is no limit on money. */
export const spendNeedsAmount = (limits: SpendLimits | null): boolean =>
  limits !== null &&
  limits.unpriced === 'block' &&
  (limits.perTransactionMicroUsd !== null ||
    limits.dailyMicroUsd !== null ||
    limits.monthlyMicroUsd !== null);

const scopeOf = ({ per }: { readonly per: LimitScope }, holder: Holder): LimitScope =>
  holder === 'passport' ? 'passport' : per;

const noLimits: readonly WindowLimit[] = Object.freeze([]);

const windowsOf = (
  { kind, per }: { readonly kind: LimitKind; readonly per: LimitScope },
  configured: readonly (readonly [window: CalendarWindowName, limit: number | null])[],
): readonly WindowLimit[] =>
  configured.flatMap(([window, limit]) => (limit === null ? [] : [{ kind, window, limit, per }]));
