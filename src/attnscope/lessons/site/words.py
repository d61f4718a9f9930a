"""The words around the lessons that are not content: headings of blocks, buttons, navigation.

The idea: one table per language with the same keys (a test compares); what a script says stands in
serve/static/js/text.

Not here: lessons (content/), what widgets say.
"""

from __future__ import annotations

from typing import Final

LANGUAGES: Final = ("zh", "en")

WORDS: Final[dict[str, dict[str, str]]] = {
    "en": {
        "lang": "en",
        "course": "How a token takes information from other tokens",
        "course.short": "Attention, from the scores up",
        "course.about": "A course in which every number is computed and every experiment runs on "
        "this page. It needs high-school mathematics and nothing else.",
        "course.soon": "not written yet",
        "other": "中文",
        "other.lang": "zh-Hans",
        "skip": "Skip to the lesson",
        "contents": "On this page",
        "lessons": "Lessons",
        "lesson": "Lesson {number}",
        "minutes": "about {minutes} minutes",
        "question": "The one question",
        "previous": "Before",
        "next": "Next",
        "timeline": "Timeline",
        "planner": "What does a model's attention cost?",
        "planner.short": "Planner",
        "planner.about": "Choose a model or paste its config.json: bytes of the KV cache, what "
        "fits on a device, what engines allocate, layer by layer. These are the answers of the "
        "command {command}. Click a number for its formula and inputs.",
        "theme": "Light or dark",
        "not-yet": "Not touched in this lesson",
        "flow": "Where the data flow stands",
        "flow.step": "Step",
        "flow.small": "Teaching sentence",
        "flow.real": "A full layer of Qwen3.8-27B",
        "flow.parameters": "{count} to learn",
        "flow.none": "nothing to learn",
        "flow.now": "this lesson",
        "flow.later": "lesson {number}",
        "flow.choose": "Shapes for",
        "predict": "Predict first",
        "predict.check": "Settle on it",
        "predict.reveal": "What happens",
        "design": "Design it yourself",
        "design.naive": "The plain idea",
        "design.fails": "Where it fails",
        "design.fix": "The fix",
        "widget": "Try it",
        "formula": "Formula",
        "formula.ask": "Underlined terms can be clicked: each tells what it is and why it stands "
        "there.",
        "misconception": "Often misunderstood",
        "correction": "Correction",
        "try": "To try",
        "evidence": "The evidence, in three questions",
        "evidence.problem": "What problem does it solve?",
        "evidence.mathematics": "Why may it work, mathematically?",
        "evidence.experiment": "Why was it chosen, experimentally?",
        "one-sentence": "In one sentence",
        "gap": "The next gap",
        "questions": "What people ask",
        "exercises": "Exercises",
        "exercise": "Exercise",
        "exercise.answer": "Your answer",
        "exercise.check": "Check",
        "exercise.solution": "The way to it",
        "code": "In attnscope's own code",
        "deeper": "A closer look",
        "here": "You are here",
        "here.all": "The whole timeline",
        "notes": "Your questions and notes",
        "notes.about": "Kept in this browser alone, and for this page alone. Download them as "
        "Markdown to keep them for good.",
        "notes.about.server": "Kept in a Markdown file on this machine.",
        "notes.label": "Notes on this lesson",
        "notes.download": "Download as Markdown",
        "solved": "Solved",
        "stuck": "Got stuck at",
        "paper": "Paper",
        "keeps": "Keeps",
        "timeline.about": "Every generation was forced by a number of the one before it. Click a "
        "number for its formula, its inputs and whether it is computed, measured or reported.",
        "noscript": "The experiments on this page run in JavaScript: please allow it.",
    },
    "zh": {
        "lang": "zh-Hans",
        "course": "注意力：一个 token 怎么从别的 token 那里取信息",
        "course.short": "注意力，从分数讲起",
        "course.about": "这门课里每个数都是算出来的，每个实验都在页面上当场跑。"
        "只要会高中数学就能读。",
        "course.soon": "还没写",
        "other": "English",
        "other.lang": "en",
        "skip": "跳到正文",
        "contents": "本页内容",
        "lessons": "全部课程",
        "lesson": "第 {number} 课",
        "minutes": "约 {minutes} 分钟",
        "question": "本课一问",
        "previous": "上一课",
        "next": "下一课",
        "timeline": "演进时间线",
        "planner": "一个模型的注意力要花多少？",
        "planner.short": "规划器",
        "planner.about": "选一个模型，或粘贴它的 config.json：KV 缓存占多少字节，"
        "一块设备放得下多长，推理引擎实际分配多少，逐层列出。答案和命令 {command} 完全相同。"
        "点任何一个数，看它的公式和输入。",
        "theme": "切换明暗",
        "not-yet": "这一课先不碰",
        "flow": "数据流走到哪了",
        "flow.step": "环节",
        "flow.small": "教学句子",
        "flow.real": "Qwen3.8-27B 的一个全注意力层",
        "flow.parameters": "要学 {count} 个数",
        "flow.none": "没有要学的数",
        "flow.now": "这一课",
        "flow.later": "第 {number} 课",
        "flow.choose": "看谁的形状",
        "predict": "先猜再看",
        "predict.check": "就选它",
        "predict.reveal": "结果",
        "design": "先自己设计",
        "design.naive": "最直接的办法",
        "design.fails": "它在哪里失败",
        "design.fix": "怎么改",
        "widget": "动手",
        "formula": "公式",
        "formula.ask": "带下划线的每一项都可以点：它是什么，为什么在那里。",
        "misconception": "常见误解",
        "correction": "纠正",
        "try": "试一试",
        "evidence": "证据三问",
        "evidence.problem": "它解决什么问题？",
        "evidence.mathematics": "数学上凭什么可能有效？",
        "evidence.experiment": "实验上为什么选了它？",
        "one-sentence": "一句话",
        "gap": "下一个缺口",
        "questions": "常有人问",
        "exercises": "练习",
        "exercise": "练习",
        "exercise.answer": "你的答案",
        "exercise.check": "核对",
        "exercise.solution": "怎么算",
        "code": "attnscope 自己的代码",
        "deeper": "再看细一点",
        "here": "你在这里",
        "here.all": "完整的时间线",
        "notes": "你的提问与笔记",
        "notes.about": "只存在这个浏览器里，只属于这一页。想长久保存，请下载成 Markdown。",
        "notes.about.server": "存在这台机器上的一个 Markdown 文件里。",
        "notes.label": "这一课的笔记",
        "notes.download": "下载 Markdown",
        "solved": "解决了",
        "stuck": "卡在",
        "paper": "论文",
        "keeps": "要存",
        "timeline.about": "每一代都是被上一代的某个数字逼出来的。点任何一个数，看它的公式、输入，"
        "以及它是算出来的、测出来的，还是论文报告的。",
        "noscript": "本页的实验需要 JavaScript，请允许它运行。",
    },
}


def say(language: str, key: str, **values: object) -> str:
    """A text in a language, with its values put in.

    >>> say("en", "lesson", number=3)
    'Lesson 3'
    """
    return WORDS[language][key].format(**values)
