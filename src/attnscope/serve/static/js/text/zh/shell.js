// @ts-check
/** The words of the frame and of the first screen, in Chinese. */

/** @type {Record<string, import("../../i18n.js").Text>} */
export const zhShell = {
  "shell.skip": "跳到主要内容",
  "shell.opening": "正在打开…",
  "shell.screens": "页面",
  "shell.screen.home": "文本",
  "shell.screen.overview": "总览",
  "shell.screen.map": "注意力图",
  "shell.screen.flow": "信息流",
  "shell.trace": "已捕获的文本",
  "shell.tokens": { other: "{shown} 个 token" },
  "shell.no_trace": "链接里的文本没有在这里打开：{name}。",
  "shell.theme.auto": "主题：跟随系统",
  "shell.theme.light": "主题：浅色",
  "shell.theme.dark": "主题：深色",
  "shell.help": "键盘操作说明",
  "shell.help.title": "键盘操作",
  "shell.help.everywhere": "所有页面",
  "shell.key.screens": "文本、总览、注意力图、信息流",
  "shell.key.tab": "下一个或上一个控件",
  "shell.key.escape": "解除锁定、返回、关闭提示",
  "shell.key.help": "打开本说明",
  "shell.close": "关闭",
};
