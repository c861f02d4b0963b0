import type { Notice } from './notice.ts';

/**
 * The body for an incoming webhook of Slack and of services that take the same (Mattermost, Rocket.Chat):
 * `text` alone, because not all of them know blocks. Text of others stands in code spans, where neither links
 * nor mentions nor formatting are read.
 */
export function slackBody({ headline, subject, facts, said, url, linkText }: Notice): string {
  const lines = [
    `*${headline}:* ${span(subject)}`,
    ...facts.map(({ label, value }) => `${label}: ${span(value)}`),
    ...(said.length === 0 ? [] : ['The requester says:']),
    ...said.map(({ label, value }) => `> ${span(label)} ${span(value)}`),
    `<${escaped(url)}|${linkText}>`,
  ];
  return JSON.stringify({ text: lines.join('\n'), unfurl_links: false, unfurl_media: false });
}

/** A span ends at a backtick, and cannot be empty. */
const span = (text: string): string => `\`${escaped(text.replaceAll('`', "'")) || ' '}\``;

/** docs.slack.dev, "Escaping text": these three, and no other. */
const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
