/** What a sidecar has decided since it was started, as it counts itself. */
export interface Decisions {
  readonly made: number;
  readonly permitted: number;
}

/** Where a load goes. */
interface Asked {
  readonly name: string;
  /** Of those that work for it, one may count its decisions. */
  readonly programs: readonly { readonly decisions?: () => Promise<Decisions> }[];
  /** Decisions that may be made although the generator ends before it has their answers. */
  readonly underWayMax: number;
}

/**
 * A server that refuses is fast, and wrk does not see it: a BLOCK has the status 200 too. Throws unless every
 * decision that was made during this load was a PERMIT, and there were as many as answers. The counts are
 * read before and after it, so that neither side is charged for them. Says nothing about programs that do not
 * count: of those wrk reads the answers (`permitsEach`), where they are not constant.
 */
export async function onlyPermits<Driven extends { readonly done: number }>(
  { name, programs, underWayMax }: Asked,
  load: () => Promise<Driven>,
): Promise<Driven> {
  const [decisions] = programs.flatMap((program) => program.decisions ?? []);
  const before = await decisions?.();
  const driven = await load();
  const after = await decisions?.();
  if (before === undefined || after === undefined) return driven;
  const made = after.made - before.made;
  const others = made - (after.permitted - before.permitted);
  if (others > 0) throw new Error(`${name}: ${others} of ${made} decisions were no PERMIT`);
  const unanswered = made - driven.done;
  if (unanswered < 0 || unanswered > underWayMax)
    throw new Error(`${name}: ${driven.done} answers to ${made} decisions`);
  return driven;
}
