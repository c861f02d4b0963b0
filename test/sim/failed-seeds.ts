/**
 * Seeds that failed once, each with what was wrong. They are played first. A seed plays something else once
 * plan, course or model change: what it found has a test of its own.
 */
export const failedSeeds: readonly { readonly seed: bigint; readonly found: string }[] = [];
