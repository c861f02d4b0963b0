/** A sidecar's own counts since its start. */
export interface Decisions {
  readonly made: number;
  readonly permitted: number;
}

/** Where a load goes. */
interface Asked {
  readonly name: string;
  /** One of them may count its decisions. */
  readonly programs: readonly { readonly decisions?: () => Promise<Decisions> }[];
  /** Decisions under way when the generator ends. */
  readonly underWayMax: number;
}

/**
 * Refusing is fast, and a BLOCK has the status 200 too. Throws unless each decision of this load was a PERMIT
 * and there were as many as answers. The counts are read before and after, so that no side is charged for
 * them. Programs without such counts are not checked here: wrk reads their answers (`permitsEach`) unless
 * they are constant.
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
