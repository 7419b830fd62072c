"""What stands on axes."""


def texts(ax):
    return [text.get_text() for text in ax.texts]
