import type { Notice } from './notice.ts';

export interface MailText {
  readonly subject: string;
  readonly text: string;
  readonly html: string;
}

/**
 * One notice as a mail. The one link is ours and comes before all that the requester says; text of others is
 * written so that no mail program makes a link of it.
 */
export function mailText(
  { headline, subject, facts, said, url, linkText }: Notice,
  footer = 'This mail decides nothing, and answers to it are not read: log in to the console to answer.',
): MailText {
  const title = cut(`${headline}: ${subject}`, subjectCharsMax);
  const width = Math.max(...facts.map(({ label }) => label.length));
  return {
    subject: title,
    text: [
      `${headline}: ${unlinked(subject)}`,
      '',
      ...facts.map(({ label, value }) => `${`${label}:`.padEnd(width + 1)} ${unlinked(value)}`),
      '',
      `${linkText}: ${url}`,
      '',
      ...(said.length === 0 ? [] : ['The requester says:']),
      ...said.map(({ label, value }) => `> ${unlinked(label)}: ${unlinked(value)}`),
      ...(said.length === 0 ? [] : ['']),
      footer,
      '',
    ].join('\n'),
    html: [
      '<!doctype html><html lang="en"><body style="font: 15px/1.5 sans-serif; color: #111; background: #fff">',
      `<p><strong>${headline}: ${shown(subject)}</strong></p>`,
      table(facts),
      `<p><a href="${escaped(url)}">${linkText}</a></p>`,
      said.length === 0 ? '' : `<p>The requester says:</p><blockquote>${table(said)}</blockquote>`,
      `<p style="color: #555">${footer}</p>`,
      '</body></html>',
      '',
    ].join('\n'),
  };
}

const subjectCharsMax = 150;

/** At most so many UTF-16 units, and no half of a character. */
const cut = (text: string, charsMax: number): string =>
  text.length <= charsMax ? text : `${text.slice(0, charsMax - 1).replace(/[\uD800-\uDBFF]$/, '')}…`;

const table = (rows: Notice['facts']): string =>
  `<table>${rows.map(({ label, value }) => `<tr><th align="left">${shown(label)}</th><td>${shown(value)}</td></tr>`).join('')}</table>`;

const shown = (text: string): string => escaped(unlinked(text));

/**
 * Mail programs make links of what looks like an address. An invisible word joiner after `://`, after `@`
 * and after the dots of names keeps them from it.
 */
const unlinked = (text: string): string =>
  text.replace(/:\/\/|[@\uFF20]|[.\u3002\uFF0E](?=\p{L})/gu, (mark) => `${mark}\u2060`);

const escaped = (text: string): string =>
  text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;');
