import type { MonotonicMillis } from '../../shared/model/time.ts';

/**
 * Answers the request at this place of several. Null: it has to wait for requests in flight, and `untilMs` is
 * null. Never rejects.
 */
export type AnswerAt<Answer> = (place: number, untilMs: MonotonicMillis | null) => Promise<Answer | null>;

/**
 * The answers to several requests of one call, each decided after the one before it. Those that have to wait
 * let the others pass, then wait together. If the client disconnects, the rest is not decided.
 */
export async function decideInOrder<Answer>(
  answerAt: AnswerAt<Answer>,
  {
    count,
    untilMs,
    isGone,
  }: { readonly count: number; readonly untilMs: MonotonicMillis; readonly isGone: () => boolean },
): Promise<Answer[]> {
  const answers: (Answer | null)[] = [];
  for (let place = 0; place < count && !isGone(); place++) answers.push(await answerAt(place, null));
  const all = await Promise.all(answers.map((answer, place) => answer ?? answerAt(place, untilMs)));
  return all.filter((answer) => answer !== null);
}
